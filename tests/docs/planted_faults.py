"""Plants a fault of each kind in small pages, and expects the checks beside this file to name it."""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent


def says(script, *words):
    """The exit status and the text of a check."""
    done = subprocess.run([sys.executable, HERE / script, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def expect(wanted, status, text):
    if status == 0 if wanted else status != 0:
        sys.exit(f"expected {wanted or 'no fault'}, got {status}: {text}")
    if wanted and wanted not in text:
        sys.exit(f"expected {wanted}, got: {text}")


def with_page(text, check, code=""):
    """What `check`, a function of the root and the page, says of a page `room/README.md` beside `room/code.cc`."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "room" / "detail").mkdir(parents=True)
        (root / "room" / "detail" / "there.h").touch()
        (root / "room" / "code.cc").write_text(code)
        (root / "room" / "README.md").write_text(text)
        return check(root, root / "room" / "README.md")


def files(root, _):
    return says("check_files.py", str(root))


def code(root, page):
    (root / "docs").mkdir()
    page.rename(root / "docs" / "extending.md")
    return says("check_files.py", str(root))


def run_or_marked(root, _):
    return says("check_commands.py", str(root))


def run(root, page):
    return says("run_console_blocks.py", str(root), str(page))


def main():
    fine = "`detail/there.h` [it](detail/there.h)\n\n| `detail/there`, `there` | all |\n"
    expect("", *with_page(fine, files))
    expect("gone.h: no such file", *with_page("`detail/gone.h`\n", files))
    expect("gone.md: no such file", *with_page("[it](gone.md)\n", files))
    expect("detail/gone: no such file", *with_page("| `detail/there`, `gone` | all |\n", files))

    shown = "## A\n`room/code.cc`\n```cpp\nint a;\n```\n"
    expect("", *with_page(shown, code, "int a;\n"))
    expect("not as in a source", *with_page(shown, code, "int b;\n"))

    expect("", *with_page("```console\n$ millrace ls x\n```\n\n    not a command\n", run_or_marked))
    expect("", *with_page("<!-- not run: no MPI -->\n\n    mpirun -np 2 true\n", run_or_marked))
    for block in ("    mpirun -np 2 true\n", "```sh\ncmake --preset dev\n```\n", "text\n\n    FOO=1 tools/test.sh\n"):
        expect("the tests do not run this", *with_page(block, run_or_marked))

    expect("", *with_page("<!-- run: echo 1 > f -->\n```console\n$ cat \\\n  f\n1\n```\n", run))
    expect("where the page has", *with_page("```console\n$ echo 2\n1\n```\n", run))
    expect("", *with_page("```console figures\n$ echo 2.5 s, input-bound\n17 s, ...\n```\n", run))
    expect("where the page has", *with_page("```console figures\n$ echo 2.5 s\n17 ms\n```\n", run))
    expect("exit status 1", *with_page("```console\n$ false\n```\n", run))


if __name__ == "__main__":
    main()
