"""results.py FILE   the results that "python3 -m test --junit-xml FILE" wrote, one test a line, sorted.

A test of which only a subtest failed has no name in FILE; it is a line, too, and its own name is missing.
"""

import sys
import xml.etree.ElementTree as ElementTree


def result_of(case):
    for failed in ("error", "failure"):
        if case.find(failed) is not None:
            return "failed"
    if case.find("skipped") is not None:
        return "skipped"
    return "ok" if "name" in case.attrib else "failed in a subtest"


cases = ElementTree.parse(sys.argv[1]).getroot().iter("testcase")
print("\n".join(sorted(f"{case.get('name', '(no name)')} {result_of(case)}" for case in cases)))
