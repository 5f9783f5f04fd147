"""Every file of this tree that a Markdown page names is there, and the C++ that docs/extending.md shows is in them.

    check_files.py ROOT

A page names a file by a link, or in `backquotes`: by its path from the root, from the page's own folder or, for a room's
page, from the room's tests; without a folder also from anywhere in those. A word is such a name if it ends as sources do or
begins with a folder of the root, and in the first column of a README's table of files. Words with capitals, <> or {} stand for
others; * is a pattern.
"""

import fnmatch
import os
import pathlib
import re
import sys

ENDING = re.compile(r"[\w*]\.(?:h|cc|cu|cmake|py|pyi|md|sh|supp|toml)$")
PLACEHOLDER = re.compile(r"[A-Z]{3,}|[<>{}%$:]|\.\.\.|\*\*")
MADE = {"millrace/_core.pyi", "millrace/transforms.pyi"}  # by the build
SKIPPED = {".git", "build", "runs", "__pycache__"}


def paths(root):
    """All files and folders, from the root, with / between."""
    found = set()
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED]
        here = pathlib.Path(folder).relative_to(root)
        found.update((here / name).as_posix() for name in folders + files)
    return found


def files_of_row(words):
    """The names in a cell of a table of files: those behind the first are in its folder."""
    if not words or not re.search(r"/|\.h$", words[0]):
        return []
    folder = words[0].rpartition("/")[0]
    return [word if "/" in word or not folder else f"{folder}/{word}" for word in words]


def names(text, folders, has_tables):
    """The names of files in a page's text."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found = {link for link in re.findall(r"\]\(([^)#\s]+)", text) if ":" not in link}
    for quoted in re.findall(r"`([^`\n]+)`", text):
        for word in re.split(r"[\s,;()'\"]+", quoted):
            is_path = "/" in word and word.split("/")[0] in folders
            if is_path or ENDING.search(word):
                found.add(word)
    for cell in re.findall(r"^\|([^|]*)\|", text, flags=re.MULTILINE) if has_tables else []:
        found.update(files_of_row(re.findall(r"`([\w/.*]+)`", cell)))
    return {name for name in found if not PLACEHOLDER.search(name)}


def is_there(name, page, known):
    """Whether the tree has it; without an ending a name is also the beginning of one."""
    name = name.rstrip("/.")
    room = page.split("/")[0] if "/" in page else ""
    places = ["", os.path.dirname(page)] + ([room, f"tests/{room}"] if room else [])
    wanted = {os.path.normpath(os.path.join(place, name.lstrip("/"))) for place in places}
    if "/" not in name:
        wanted |= {f"{place}/*/{name}" for place in places[2:]}
    if not ENDING.search(name):
        wanted |= {path + ".*" for path in wanted}
    return bool(wanted & known) or any(fnmatch.filter(known, path) for path in wanted if "*" in path)


def shown_code(root, page):
    """Blocks of C++ that are in none of the sources that their section names."""
    faults = []
    for section in re.split(r"^## ", (root / page).read_text(), flags=re.MULTILINE):
        sources = [(root / name).read_text() for name in re.findall(r"`([\w/]+\.(?:cc|h))`", section)
                   if (root / name).is_file()]
        for block in re.findall(r"^```cpp\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL):
            if not any(block in source for source in sources):
                faults.append(f"{page}: {block.splitlines()[0]} ...: not as in a source that the section names")
    return faults


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    known = paths(root)
    folders = {path for path in known if "/" not in path and (root / path).is_dir()}
    faults = [fault for page in sorted(known & {"docs/extending.md"}) for fault in shown_code(root, page)]
    for page in sorted(path for path in known if path.endswith(".md")):
        for name in sorted(names((root / page).read_text(), folders, page.endswith("README.md")) - MADE):
            if not is_there(name, page, known):
                faults.append(f"{page}: {name}: no such file")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
