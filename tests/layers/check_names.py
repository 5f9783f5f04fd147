"""Names in unnamed namespaces, and static functions, are distinct within a target.

    check_names.py LIST        a line of LIST: TARGET SOURCE...

Sources are compiled in groups (cmake/MillraceRoom.cmake), which groups, a new file changes. Two helpers of one name are
then a redefinition, or worse none: with other parameters they are overloads, and a call may silently take the other
file's. So it is with a function that a file takes from elsewhere by a using-declaration, or from a header. Exits with 1 where two files of a target have one name.
"""

import collections
import functools
import pathlib
import re
import sys

SKIP = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\'',
                  re.DOTALL)
TEMPLATE = re.compile(r"^template\s*<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>\s*(?:requires\s.*?(?=\b(?:class|struct|void|auto)\b))?")
NO_NAMES = {"HWY_EXPORT", "HWY_BEFORE_NAMESPACE", "HWY_AFTER_NAMESPACE", "TEST", "TEST_F", "TEST_P",
          "INSTANTIATE_TEST_SUITE_P", "MATCHER", "MATCHER_P", "MATCHER_P2",
          "PrintTo"}  # overloads that GoogleTest asks for


def plain(text):
    """The text without comments, literals and preprocessor lines."""
    text = SKIP.sub(lambda found: '""' if found.group()[0] in "\"R" else " ", text)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", text, flags=re.MULTILINE)


def declarations(text):
    """Of all at namespace level: the namespaces around it ("" for unnamed ones), and its text but for template parameters
    and what stands in brackets."""
    opened, head, i = [], "", 0
    while i < len(text):
        letter = text[i]
        head = TEMPLATE.sub("", head.lstrip(), count=1)
        namespace = re.search(r"(?:^|\s)namespace\s*([\w:]*)\s*$", head) if letter == "{" else None
        if namespace:
            opened.append(namespace.group(1))
            head = ""
        elif letter == "}" and opened:
            opened.pop()
            head = ""
        elif letter == ";" or (letter == "{" and "=" not in head):
            yield tuple(opened), head.strip()
            head = ""
        elif letter in "([":
            head += letter + " "
        else:
            head += letter
        if letter in "([{" and not namespace:
            i = closing(text, i)
            head += {"(": ")", "[": "]", "{": ""}[letter]
        i += 1


@functools.cache
def all_declarations(path):
    """declarations() of a file: several checks ask for them."""
    return list(declarations(plain(path.read_text())))


def closing(text, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        if text[i] in "({[":
            depth += 1
        elif text[i] in ")}]":
            depth -= 1
            if depth == 0:
                return i
    return len(text) - 1


def name_of(declaration):
    """The name that a declaration at namespace level introduces, or None."""
    text = re.sub(r"\[ \[ \]\]|\[ \]", " ", declaration).strip()
    found = re.match(r"(?:class|struct|union|enum(?:\s+class)?)\s+(?:[A-Z_]+(?:\( \))?\s+)?(\w+)(?:\s+final)?\s*(?::(?!:)|$)", text)
    if found:
        return found.group(1)
    if re.match(r"(?:using|friend|extern|typedef|concept|namespace|static_assert)\b|\W", text):
        return None
    head = text.split("=", 1)[0].strip()
    if "operator" in head:
        return None
    found = re.search(r"(\S*?)(\w+)\s*\( \)", head)
    if found:
        before = head[:found.start(2)].strip()
        return None if not before or before.endswith("::") or found.group(2) in NO_NAMES else found.group(2)
    found = re.search(r"[\s&*>](\w+)$", head)
    return found.group(1) if found else None


def helpers(path):
    """What a file defines for itself alone: (namespace, name)."""
    found = set()
    for around, declaration in all_declarations(path):
        if "" in around or declaration.startswith("static "):
            found.add(("::".join(filter(None, around)), name_of(declaration)))
    return {(around, name) for around, name in found if name}


def shown(header):
    """The types and functions that a header has for all: (namespace, name)."""
    for around, declaration in all_declarations(header):
        if "" not in around and name_of(declaration):
            yield "::".join(around), name_of(declaration)


def taken(path):
    """What a file takes from another namespace, `using html::escaped`: (namespace, name)."""
    for around, declaration in all_declarations(path):
        found = re.fullmatch(r"using\s+(?:\w+::)+(\w+)", declaration)
        if found:
            yield "::".join(filter(None, around)), found.group(1)


def aliases(path):
    """The `using name = type` that a file has for itself alone: (namespace, name) and the type. Two files may have the same."""
    for around, declaration in all_declarations(path):
        found = re.fullmatch(r"using\s+(\w+)\s*=\s*(.*)", declaration, re.DOTALL)
        if found and "" in around:
            yield ("::".join(filter(None, around)), found.group(1)), " ".join(found.group(2).split())


def alias_clashes(sources):
    """(name, the files that have it) of every alias that is another type in another source, or a type or function of a header
    or of another source alone."""
    types = collections.defaultdict(dict)
    for source in sources:
        for name, type_ in aliases(pathlib.Path(source)):
            types[name][source] = type_
    for source in sources:
        for name in helpers(pathlib.Path(source)) & types.keys():
            types[name].setdefault(source, source)
    for header in (pathlib.Path(source).with_suffix(".h") for source in sources):
        for name in set(shown(header)) & types.keys() if header.exists() else ():
            types[name][str(header)] = str(header)
    return sorted((name, sorted(files)) for (_, name), files in types.items() if len(set(files.values())) > 1)


def clashes(sources):
    """(name, the files that have it) of every helper that two of the sources define, that another source takes from elsewhere,
    or that is called as what the header of another source has."""
    defined = collections.defaultdict(list)
    for source in sources:
        for helper in helpers(pathlib.Path(source)):
            defined[helper].append(source)
    helper_names = {helper: set(files) for helper, files in defined.items()}
    for source in sources:
        for name in set(taken(pathlib.Path(source))) & helper_names.keys():
            if source not in helper_names[name]:
                defined[name].append(source)
    for header in (pathlib.Path(source).with_suffix(".h") for source in sources):
        for name in set(shown(header)) & helper_names.keys() if header.exists() else ():
            if str(header.with_suffix(".cc")) not in helper_names[name]:
                defined[name].append(str(header))
    return sorted((name, sorted(files)) for (_, name), files in defined.items() if len(files) > 1)


def main():
    faults = 0
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        target, *sources = line.split()
        for name, files in clashes(sources) + alias_clashes(sources):
            faults += 1
            print(f"{target}: {name} is defined in {' and '.join(files)}: give one of them a name of its own")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
