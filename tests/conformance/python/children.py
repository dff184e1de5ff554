"""Processes that read: how they are started, what they inherit, what they are told."""
import multiprocessing, os, subprocess, sys
from concurrent.futures import ProcessPoolExecutor

from cases import case, digest, read

NAMES = [f"samples/{n:03}.bin" for n in range(24)]
COUNT = "import os, sys; print(sum(len(open(name, 'rb').read()) for name in sys.argv[1:]))"


def output(command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, **options).stdout


def sum_of(name):
    return digest(read(name))


def main():
    @case
    def subprocesses():
        return [
            output(["/bin/cat", *NAMES]),
            output(["/bin/cat", *NAMES], close_fds=False),
            output(["/bin/cat", "021.bin"], cwd="samples"),
            output("cat samples/02*.bin; cat <samples/019.bin", shell=True),
            output(["/bin/cat", *NAMES], start_new_session=True, preexec_fn=lambda: os.nice(1)),
        ]

    @case
    def child_without_an_environment():
        return output(["/bin/cat", *NAMES], env={}), output([sys.executable, "-c", COUNT, *NAMES], env={"LC_ALL": "C"})

    @case
    def inherited_files():
        with open(NAMES[20], "rb") as file:
            whole = output(["/bin/cat"], stdin=file)
            file.seek(100)
            rest = output(["/bin/cat"], stdin=file)
            file.seek(50)
            passed = output(["/bin/cat", f"/dev/fd/{file.fileno()}"], pass_fds=[file.fileno()])
            return whole, rest, passed, file.tell()

    @case
    def pipeline():
        cat = subprocess.Popen(["/bin/cat", *NAMES], stdout=subprocess.PIPE)
        return output(["/usr/bin/sha256sum"], stdin=cat.stdout), cat.wait()

    @case
    def spawned():
        reader, writer = os.pipe()
        actions = [(os.POSIX_SPAWN_OPEN, 0, NAMES[15], os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, writer, 1)]
        child = os.posix_spawn("/bin/cat", ["cat", "-", NAMES[3]], os.environ, file_actions=actions)
        os.close(writer)
        with open(reader, "rb") as file:
            return file.read(), os.waitpid(child, 0)[1]

    @case
    def forked():
        reader, writer = os.pipe()
        with open(NAMES[20], "rb", buffering=0) as file:
            file.read(10)
            child = os.fork()
            if child == 0:
                os.write(writer, file.read(1000) + read(NAMES[4]))
                os._exit(7)
            status = os.waitpid(child, 0)[1]
            # The position is shared.
            return os.waitstatus_to_exitcode(status), os.read(reader, 65536), file.tell()

    @case
    def pools():
        sums = []
        for method in "fork", "spawn", "forkserver":
            with multiprocessing.get_context(method).Pool(2) as pool:
                sums.append(pool.map(sum_of, NAMES))
            with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as executor:
                sums.append(list(executor.map(sum_of, NAMES)))
        return len(sums), all(s == sums[0] for s in sums), sums[0]

    @case
    def all_descriptors_closed():
        read(NAMES[1])
        os.closerange(3, 1024)
        return [sum_of(name) for name in NAMES]

    @case
    def environment_is_cleared():
        kept = dict(os.environ)
        os.environ.clear()
        sums = [sum_of(name) for name in NAMES], output(["/bin/cat", *NAMES])
        os.environ.update(kept)
        return sums

    @case
    def written_by_a_child():
        before = read(NAMES[5])
        output(f"echo new >{NAMES[5]}", shell=True)
        output(["/bin/mv", NAMES[6], NAMES[7]])
        return before, read(NAMES[5]), read(NAMES[7])

    sys.stdout.flush()
    os.execv("/usr/bin/sha256sum", ["sha256sum", NAMES[8]])


if __name__ == "__main__":
    main()
