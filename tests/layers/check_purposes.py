"""No two kinds of random choice have one purpose (io/base/rng.h): then they would draw the same numbers.

    check_purposes.py          the sources beside tests/
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[2]
NUMBER = re.compile(r"Purpose (k\w+)\{(\d+)\}")
ENUMERATOR = re.compile(r"enum class Purpose[^{]*\{([^}]*)\}")
NAME = re.compile(r"purpose_of\((\"[^\"]*\")\)")


def declared(text):
    """(what, value) of each purpose that `text` declares."""
    for listed in ENUMERATOR.findall(text):
        yield from re.findall(r"(\w+) = (\d+)", listed)
    yield from NUMBER.findall(text)
    yield from ((name, name) for name in NAME.findall(text))


def conflicts(sources):
    """Of (place, text) pairs: a line for each purpose that is declared twice."""
    first = {}
    for place, text in sources:
        text = re.sub(r"//[^\n]*", "", text)
        for what, value in declared(text):
            if value in first:
                yield f"{place}: {what} has the purpose {value} of {first[value]}"
            first.setdefault(value, f"{what} in {place}")


def main():
    planted = [("a", "enum class Purpose : int { kOld = 9 };"), ("b", "constexpr Purpose kFlip{5}; // Purpose kNot{5}"),
               ("c", 'constexpr Purpose kTurn{5}; auto a = purpose_of("x");'), ("d", 'purpose_of("x") Purpose kNew{9}')]
    assert [line[0] for line in conflicts(planted)] == ["c", "d", "d"], list(conflicts(planted))
    rooms = ["io", "wds", "decode", "pipeline", "device", "trainer", "tools", "python"]
    sources = [(path.relative_to(ROOT), path.read_text()) for room in rooms for suffix in ("*.h", "*.cc")
               for path in sorted((ROOT / room).rglob(suffix))]
    found = list(conflicts(sources))
    assert len(list(declared("".join(text for _, text in sources)))) > 9, "no purposes found"
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
