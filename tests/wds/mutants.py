#!/usr/bin/env python3
"""How many mutants of a shard Python's tarfile notices, beside what the wds tests print.

    MILLRACE_LONG=1 MILLRACE_MUTANTS=/tmp/m build/release/bin/wds_tests --gtest_filter='Mutants*'
    python3 tests/wds/mutants.py /tmp/m

For each kind of damage: mutants, those that a plain loop over tarfile raises for ("tarfile"), and
those where it gives other members, sizes or bytes than the shard has and raises nothing ("silent").
"""

import io
import sys
import tarfile

KINDS = [
    "cut in a payload",
    "cut at or in a header",
    "cut in the end marker or its padding",
    "header byte flipped",
    "header zeroed",
    "payload byte flipped",
]


def members(data):
    """Names and bytes of all files, as a user's loop reads them."""
    found = []
    with tarfile.open(fileobj=io.BytesIO(data), mode="r|") as tar:
        for member in tar:
            if member.isfile():
                found.append((member.name, tar.extractfile(member).read()))
    return found


def mutant(whole, words):
    if words[1] == "cut":
        return whole[: int(words[2])]
    at, new = int(words[2]), bytes.fromhex(words[3])
    return whole[:at] + new + whole[at + len(new) :]


def main(place):
    with open(place + ".tar", "rb") as file:
        whole = file.read()
    right = members(whole)
    total, noticed, silent = ([0] * len(KINDS) for _ in range(3))
    with open(place + ".edits") as edits:
        for line in edits:
            words = line.split()
            kind = int(words[0])
            total[kind] += 1
            try:
                silent[kind] += members(mutant(whole, words)) != right
            except Exception:  # whatever it is, it was noticed
                noticed[kind] += 1
    print(f"{'':38} {'mutants':>7} {'tarfile':>8} {'silent':>8}")
    for kind, name in enumerate(KINDS):
        print(f"{name:38} {total[kind]:7} {noticed[kind]:8} {silent[kind]:8}")


if __name__ == "__main__":
    main(sys.argv[1])
