"""How Sphinx builds the documentation: `sphinx-build -W -c docs . build/docs`.

Its sources are the Markdown files of the whole tree, so that a link from a guide to a room's README is
one here too. The API reference is made from the package, which must be importable, and the gallery's
pictures by the program that MILLRACE_PROGRAM names.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import millrace
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.errors import ExtensionError
from sphinx.util import logging

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "docs"))
from run_console_blocks import commands  # noqa: E402

project = "millrace"
project_copyright = "Apache License 2.0"
root_doc = "docs/index"
include_patterns = [
    "*.md", "docs/*.md", "bench/*.md", "python/*.md", "io/*.md", "wds/*.md", "decode/*.md",
    "pipeline/*.md", "device/*.md", "trainer/*.md", "trainer/hlo/*.md", "trainer/pjrt/*.md", "tools/*.md",
    "tools/recipes/*.md",
]  # fmt: skip
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {"page_width": "70em", "description": "WebDataset shards into batches"}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_copyright = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"

PICTURES = "pictures"
REFERENCE = "cpp"  # what Doxygen writes
ROOMS = ["io", "wds", "decode", "pipeline", "device", "trainer"]


def draw(app) -> None:
    """Runs the gallery's commands, as its page has them, in a folder of the output."""
    folder = Path(app.outdir) / PICTURES
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    program = Path(os.environ["MILLRACE_PROGRAM"]).resolve()
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    page = Path(app.srcdir) / "docs" / "gallery.md"
    for command in commands(page.read_text()):
        done = subprocess.run(
            command.text, shell=True, cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise ExtensionError(f"docs/gallery.md: {command.text}\n{done.stderr}")
    for shard in folder.glob("*.tar*"):
        shard.unlink()


def refer_to_headers(app, error) -> None:
    """Runs Doxygen over the public headers, where it is installed: pages with a search of their own."""
    doxygen = shutil.which("doxygen")
    if error or app.builder.format != "html" or not doxygen:
        return
    root, folder = Path(app.srcdir), Path(app.outdir) / REFERENCE
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    options = (root / "docs" / "Doxyfile").read_text() + (
        f'INPUT = {" ".join(ROOMS)}\nSTRIP_FROM_PATH = "{root}"\nOUTPUT_DIRECTORY = "{folder}"\n'
    )
    done = subprocess.run(
        [doxygen, "-"], input=options, cwd=root, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ExtensionError(f"doxygen: {done.stderr}")


class HeaderReference(Directive):
    """The way to the reference of the headers, or why this build has none."""

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        if not shutil.which("doxygen"):
            text = "This site was built on a machine without Doxygen: it has no reference of the headers."
            return [nodes.paragraph(text, text)]
        here = "../" * env.docname.count("/")
        html = f'<p><a href="{here}{REFERENCE}/index.html">The headers, by file, class and name</a></p>'
        return [nodes.raw("", html, format="html")]


class Drawn(Directive):
    """A picture that the page's commands have drawn; the text in it says what one sees."""

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        name = self.arguments[0]
        if not (Path(env.app.outdir) / PICTURES / name).exists():
            raise self.error(f"no command of this page draws {name}")
        here = "../" * env.docname.count("/")
        text = nodes.unescape(" ".join(self.content))
        html = f'<img src="{here}{PICTURES}/{name}" alt="{text}"/>'
        return [nodes.raw("", html, format="html"), nodes.paragraph(text, text)]


def of_nanobind(app, what, name, obj, options, lines) -> None:
    """The comments of bound classes mark code as those in C++ do; a property has its type alone."""
    if what == "property" and lines and (told := re.fullmatch(r"\(self\) -> (.*)", lines[0])):
        lines[0] = f"``{told[1].replace('millrace._core.', '')}``"
    elif getattr(obj, "__module__", "").startswith("millrace._core"):
        lines[:] = [re.sub(r"(?<!`)`([^`]+)`(?!`)", r"``\1``", line) for line in lines]
        lines[:] = [re.sub(r"\*(?=\w)", r"\*", line) for line in lines]


def arguments_of_nanobind(app, what, name, obj, options, arguments, returns):
    """A bound class's arguments are in the first line of its constructor's comment."""
    told = re.match(r"__init__\(self(?:, )?(.*)\) -> None", getattr(obj.__init__, "__doc__", None) or "")
    if what == "class" and told:
        return f"({told[1].replace('millrace._core.', '')})", None
    return None


def all_is_documented(app, env) -> None:
    documented = {name.split(".")[-1] for name in env.domaindata["py"]["objects"]}
    for name in sorted(set(millrace.__all__) - documented):
        logging.getLogger(__name__).warning("millrace.%s is not in docs/python_api.md", name)


def setup(app) -> None:
    app.connect("builder-inited", draw)
    app.connect("build-finished", refer_to_headers)
    app.connect("autodoc-process-docstring", of_nanobind)
    app.connect("autodoc-process-signature", arguments_of_nanobind)
    app.connect("env-check-consistency", all_is_documented)
    app.add_directive("drawn", Drawn)
    app.add_directive("headers", HeaderReference)
