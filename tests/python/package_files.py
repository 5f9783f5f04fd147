"""What is installed into the wheel is what its target builds: nothing that only `all` would make.

    package_files.py SOURCE BUILD PYTHON   configures SOURCE as pip does, in BUILD
"""

import re
import subprocess
import sys
from pathlib import Path

source, build, python = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
target = re.search(r'build\.targets = \["(\w+)"\]', (source / "python/pyproject.toml").read_text())
assert target, "python/pyproject.toml names no target"
subprocess.run(
    ["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DMILLRACE_BUILD_PYTHON=ONLY",
     "-DMILLRACE_BUILD_TESTS=OFF", "-DMILLRACE_BUILD_BENCH=OFF", f"-DPython_EXECUTABLE={python}"],
    check=True, stdout=subprocess.DEVNULL)  # fmt: skip
commands = subprocess.run(["ninja", "-C", build, "-t", "commands", target[1]],
                          check=True, capture_output=True, text=True).stdout  # fmt: skip
installed = set()
for script in build.rglob("cmake_install.cmake"):
    for path in re.findall(rf'"({re.escape(str(build))}/[^"]+\.(?:so|pyi))"', script.read_text()):
        installed.add(str(Path(path).relative_to(build)))
assert installed, "nothing is installed"
missing = sorted(path for path in installed if path not in commands)
assert not missing, f"{target[1]} does not build {', '.join(missing)}"
print(f"{len(installed)} files, all built by {target[1]}")
