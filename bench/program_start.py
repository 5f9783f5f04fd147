"""What a start of the program costs: milliseconds of processor time, user's and system's.

    bench/program_start.py build/release/bin/millrace [STARTS]

Of commands that do next to nothing, beside /bin/true, which loads libc alone; then the shared libraries whose loading
takes most, each behind those that it needs, in a process of their own. Least and middle of STARTS (default 40), in turn.
"""

import os
import re
import statistics
import subprocess
import sys

COMMANDS = (["--help"], ["train", "--help"], ["completion", "bash"], ["version"])
LOAD = """
import ctypes, sys, time
for path in sys.argv[1:]:
    begin = time.process_time()
    ctypes.CDLL(path, ctypes.RTLD_GLOBAL | 1)  # RTLD_LAZY
    print(time.process_time() - begin, path)
"""


def start_ms(words):
    """Of one start, to its end."""
    with open(os.devnull, "w") as nothing:
        child = subprocess.Popen(words, stdout=nothing, stderr=nothing)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(words)} ends with {child.returncode}")
    return 1000 * (usage.ru_utime + usage.ru_stime)


def in_order(program):
    """The libraries that it loads, each behind those that it needs."""
    paths = {}
    for name, path in re.findall(r"(\S+) => (/\S+)", subprocess.check_output(["ldd", program], text=True)):
        paths[name] = path
    order = []

    def add(name):
        if name not in paths or paths[name] in order:
            return
        lines = subprocess.check_output(["readelf", "-d", paths[name]], text=True)
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", lines):
            add(needed)
        if paths[name] not in order:
            order.append(paths[name])

    for name in paths:
        add(name)
    return order


def main(program, starts):
    programs = [["/bin/true"]] + [[program] + words for words in COMMANDS]
    times = [[start_ms(words) for words in programs] for _ in range(starts)]
    for words, column in zip(programs, zip(*times)):
        shown = " ".join([os.path.basename(words[0])] + words[1:])
        print(f"{shown:28} least {min(column):5.1f} ms, middle {statistics.median(column):5.1f} ms")
    libraries = in_order(program)
    loads = {}
    for _ in range(starts):
        for line in subprocess.check_output([sys.executable, "-c", LOAD, *libraries], text=True).splitlines():
            seconds, path = line.split()
            loads.setdefault(os.path.basename(path), []).append(1000 * float(seconds))
    print(f"{len(libraries)} libraries; of these, by their least:")
    for name, each in sorted(loads.items(), key=lambda load: -min(load[1]))[:8]:
        print(f"  {name:26} least {min(each):5.2f} ms, middle {statistics.median(each):5.2f} ms")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
