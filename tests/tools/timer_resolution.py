"""libhwy calls the program's own TimerResolution() when it is loaded (tools/timer_resolution.cc), as the loader says.

usage: timer_resolution.py MILLRACE
"""

import os
import subprocess
import sys

program = sys.argv[1]
said = subprocess.run([program, "--help"], env={**os.environ, "LD_DEBUG": "bindings"}, capture_output=True, text=True,
                      check=True, timeout=100).stderr
bound = [line for line in said.splitlines() if "TimerResolution" in line]
if not bound:
    print("skipped: this libhwy measures nothing, or the loader does not say")
for line in bound:
    assert f" to {program} [" in line, line
