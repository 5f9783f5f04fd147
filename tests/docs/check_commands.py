"""Every command in a block of a Markdown page is run by the tests, or says what a test has not.

    check_commands.py ROOT

Blocks of the kind `console` are run (run_console_blocks.py). Any other block with a command in it has `<!-- not run: REASON -->`
before it.
"""

import pathlib
import re
import subprocess
import sys

PROGRAM = re.compile(r"(?:\$ )?(?:\w+=\S* )*(?:"
                     r"(?:\S*/)?millrace [a-z]\S* (?!\()|(?:mpirun|srun|torchrun|cmake|ctest|ninja|pip|export) |(?:python3?|PYTHON) \S|"
                     r"(?:\./)?(?:tools|tests|bench|build)/[\w./-]+(?:\s|$))")
MARK = re.compile(r"<!-- not run: \S.* -->")


def blocks(text):
    """(line number, kind, lines, the line before) of a page's code blocks; an indented one's kind is ''."""
    kind, lines, start, before, last = None, [], 0, "", ""
    for number, line in enumerate(text.splitlines() + [""], 1):
        fence = line.strip().startswith("```")
        if kind is None and fence:
            kind, lines, start, before = line.strip()[3:] or "text", [], number, last
        elif kind is None and line.startswith("    ") and not re.match(r"\s*[-*|]", last):
            kind, lines, start, before = "", [line], number, last
        elif kind == "" and line.strip() and not line.startswith("    "):
            yield start, kind, lines, before
            kind = None
            if fence:
                kind, lines, start, before = line.strip()[3:] or "text", [], number, last
        elif kind and fence:
            yield start, kind, lines, before
            kind = None
        elif kind is not None:
            lines.append(line)
        if line.strip():
            last = line
    if kind == "":
        yield start, kind, lines, before


def faults(page):
    for number, kind, lines, before in blocks(page.read_text()):
        command = next((line.strip() for line in lines if PROGRAM.match(line.strip())), None)
        if command and kind.split(" ")[0] != "console" and not MARK.match(before):
            yield f"{page}:{number}: the tests do not run this, and nothing says why: {command}"


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [page for page in sorted(root.rglob("*.md")) if page.relative_to(root).parts[0] not in ("build", "runs")]
    sys.exit("\n".join(fault for page in pages for fault in faults(page)) or 0)


if __name__ == "__main__":
    main()
