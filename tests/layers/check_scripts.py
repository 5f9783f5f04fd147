"""No script that ends with its first failing command pipes into `grep -q`, which ends at its first match: what writes to it may
then die of SIGPIPE, and with pipefail that is a failure, once in a while.

    check_scripts.py          the scripts beside tests/
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = [".ci", "bench", "python", "tests", "tools"]
QUIET = re.compile(r"\|\s*(?:\\\n\s*)?grep\s+(?:-\w+\s+)*-\w*q")


def faults(sources):
    """Of (place, text) pairs: a line for each such pipe."""
    for place, text in sources:
        text = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE)
        yield from (f"{place}:{text.count(chr(10), 0, found.start()) + 1}: a pipe into grep -q" for found in QUIET.finditer(text))


def main():
    planted = "# a | grep -q b\ngrep -q c d || e\na | grep -qx b\na |\\\n  grep -E -q b\n"
    assert [line.split()[0] for line in faults([("x", planted)])] == ["x:3:", "x:4:"], list(faults([("x", planted)]))
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix == ".sh" or path.name == "run"]
    scripts = [(path.relative_to(ROOT), path.read_text()) for path in files if path.is_file()]
    assert len(scripts) > 9, "no scripts found"
    found = list(faults(scripts))
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
