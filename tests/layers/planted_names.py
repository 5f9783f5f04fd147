"""Plants two helpers of one name, and expects check_names.py to name them and nothing else."""

import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).with_name("check_names.py")
FIRST = """
namespace a::b {
namespace {
constexpr auto kBytes = std::size_t{1} << 20;
template <typename T, typename U = std::vector<T>>
auto pick(T from) -> U { return {from}; }
struct Point final : Base<int> { int pick_me() { return 1; } };
using Json = nlohmann::json;
[[noreturn]] void refuse(const std::string& text) { throw Error(text + "void taken() {"); }
}  // namespace
int shown() { const auto inner = [] { return 1; }; return inner(); }
void Class::member() {}
static int hidden() { return 2; }
}  // namespace a::b
"""


def faults(second, header=""):
    """What the check says of FIRST and another file of its target, with that file's header."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "one.cc").write_text(FIRST)
        (root / "two.cc").write_text(second)
        (root / "two.h").write_text(header)
        (root / "list").write_text(f"room {root}/one.cc {root}/two.cc\n")
        done = subprocess.run([sys.executable, CHECK, root / "list"], capture_output=True, text=True)
        assert not done.stderr and (done.returncode != 0) == bool(done.stdout), done.stderr
        return [line.split()[1] for line in done.stdout.splitlines()]


def main():
    for name, text in {"kBytes": "const int kBytes = 3;", "pick": "int pick(int, int) { return 1; }", "Point": "class Point {};",
                       "refuse": "void refuse() {}", "hidden": "int hidden(int) { return 1; }"}.items():
        found = faults("namespace a { namespace b { namespace { " + text + " } } }")
        assert found == [name], (name, found)
    harmless = ("namespace a::b { namespace { using Json = nlohmann::json; int taken() { return 1; } int inner = 2; } "
                "int shown(int); }\nnamespace a { namespace { void refuse() {} } }")
    assert faults(harmless) == [], faults(harmless)
    assert faults("namespace a::b { namespace { using c::pick; } }") == ["pick"]
    assert faults("namespace a { using b::pick; }") == []
    assert faults("namespace a::b { namespace { using pick = int; } }") == ["pick"]
    assert faults("", "namespace a::b {\nvoid refuse(int, int);\nint shown(int);\n}") == ["refuse"]
    other = "namespace a::b { namespace { using Json = int; } }"
    assert faults(other) == ["Json"]
    assert faults("", "namespace a::b {\nstruct Json {};\n}") == ["Json"]
    assert faults("", "namespace a::b {\nclass Point {};\nstruct Shown {};\n}") == ["Point"]


if __name__ == "__main__":
    main()
