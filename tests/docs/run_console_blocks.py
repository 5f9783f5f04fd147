"""Runs the `console` blocks of Markdown pages: each page's from top to bottom, in an empty folder.

    run_console_blocks.py PROGRAM_FOLDER PAGE...

A line that starts with `$ ` is a command and must exit with 0; the lines behind it, if any, must be what it prints.
"""

import os
import pathlib
import subprocess
import sys
import tempfile


def blocks(page):
    """The console blocks of a page, each a list of (line number, text)."""
    block = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if block is None:
            if line.strip() == "```console":
                block = []
        elif line.strip() == "```":
            yield block
            block = None
        else:
            block.append((number, line))


def commands(page):
    """(line number, command, lines that it must print) of a page, in order."""
    found = []
    for block in blocks(page):
        for number, line in block:
            if line.startswith("$ "):
                found.append((number, line[2:], []))
            else:
                found[-1][2].append(line)
    return found


def run_page(page, environment):
    """Runs a page's commands; returns how many there were."""
    with tempfile.TemporaryDirectory() as folder:
        for number, command, wanted in commands(page):
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, text=True,
                                  capture_output=True, timeout=300)
            where = f"{page.name}:{number}: {command}"
            if done.returncode != 0:
                sys.exit(f"{where}\nexit status {done.returncode}\n{done.stdout}{done.stderr}")
            printed = done.stdout.splitlines()
            if wanted and printed != wanted:
                sys.exit(f"{where}\nprinted {printed}, where the page has {wanted}")
    return len(commands(page))


def main():
    programs, *pages = sys.argv[1:]
    environment = dict(os.environ, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    for page in map(pathlib.Path, pages):
        print(f"{page.name}: {run_page(page, environment)} commands")


if __name__ == "__main__":
    main()
