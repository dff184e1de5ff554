"""What the programs here share: each case prints one line, its name and what came of it."""
import hashlib


def digest(data):
    return hashlib.sha256(bytes(data)).hexdigest()[:16]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def show(value):
    if isinstance(value, (bytes, bytearray, memoryview)):
        # Short ones as they are.
        return str(bytes(value)) if len(value) <= 40 else f"<{len(value)} bytes {digest(value)}>"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(show(part) for part in value) + "]"
    return repr(value)


def case(function):
    """Runs it at once. An exception ends the program: no case is meant to fail."""
    print(f"{function.__name__}: {show(function())}", flush=True)
    return function


def error(name, call, *args, **kwargs):
    """A call that fails: its error. One that does not is said, too."""
    try:
        outcome = call(*args, **kwargs)
    except Exception as e:
        errors = [getattr(e, key, None) for key in ("errno", "filename", "filename2")]
        print(f"{name}: {type(e).__name__} {errors} {e}", flush=True)
    else:
        print(f"{name}: no error, {show(outcome)}", flush=True)
