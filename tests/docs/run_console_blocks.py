"""Runs the commands of Markdown pages: each page's from top to bottom, in an empty folder.

    run_console_blocks.py PROGRAM_FOLDER PAGE...

A line of a `console` block that starts with `$ ` is a command, which a backslash at its end continues in the next line, and must exit
with 0; the lines behind it, if any, must be what it prints. In a block `console figures` numbers and what limits a run may be
others, and lines may be left out; `...` stands for lines, or for a part of one. `<!-- run: COMMAND -->` runs what the page does not show.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HIDDEN = re.compile(r"<!-- run: (.*) -->")
# Open MPI starts more processes than there are cores, and for root, only when told so.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


class Command:
    def __init__(self, number, text, figures=False):
        self.number, self.text, self.figures, self.printed = number, text, figures, []

    def add(self, line):
        """A line behind the command: more of it, or what it prints."""
        if self.text.endswith("\\") and not self.printed:
            self.text = self.text[:-1] + line.strip()
        else:
            self.printed.append(line)


def commands(text):
    """The commands of a page, in order."""
    found, info = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if info is None and line.strip().startswith("```"):
            info = line.strip()[3:].split() or ["text"]
        elif info and line.strip() == "```":
            info = None
        elif info is None and HIDDEN.match(line):
            found.append(Command(number, HIDDEN.match(line).group(1)))
        elif info and info[0] == "console" and line.startswith("$ "):
            found.append(Command(number, line[2:], "figures" in info))
        elif info and info[0] == "console":
            found[-1].add(line)
    return found


def without_figures(line):
    """A line without what the machine and its load decide."""
    line = re.sub(r"[a-z]+-bound(?: by \w+)?(?: \((?:waits|sums take) [^)]*\))?", "bound", line.strip())
    return re.sub(r"\s+", " ", re.sub(r"\d[\d.,:]*", "0", line))


def is_like(wanted, line):
    pattern = ".*".join(re.escape(part) for part in without_figures(wanted).split("..."))
    return re.fullmatch(pattern, without_figures(line)) is not None


def differs(command, printed):
    """Whether what was printed is not what the page has."""
    if not command.figures:
        return bool(command.printed) and printed != command.printed
    lines = iter(printed)  # each is looked for behind the one before
    wanted = [line for line in command.printed if line.strip() not in ("", "...")]
    return not all(any(is_like(line, other) for other in lines) for line in wanted)


def run_page(page, environment):
    """Runs a page's commands; returns how many there were."""
    found = commands(page.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for command in found:
            where = f"{page.name}:{command.number}: {command.text}"
            if command.text.startswith("mpirun ") and not shutil.which("mpirun"):
                print(f"{where}\nnot run: no mpirun")
                continue
            done = subprocess.run(["bash", "-c", command.text], cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, timeout=300,
                                  stderr=subprocess.STDOUT if command.figures else subprocess.PIPE)
            if done.returncode != 0:
                sys.exit(f"{where}\nexit status {done.returncode}\n{done.stdout}{done.stderr or ''}")
            if differs(command, done.stdout.splitlines()):
                wanted = "\n".join(command.printed)
                sys.exit(f"{where}\nprinted\n{done.stdout}\nwhere the page has\n{wanted}")
    return len(found)


def main():
    programs, *pages = sys.argv[1:]
    environment = dict(os.environ, **MPI, PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    for page in map(pathlib.Path, pages):
        print(f"{page.name}: {run_page(page, environment)} commands")


if __name__ == "__main__":
    main()
