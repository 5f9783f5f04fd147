"""``python -m millrace ...`` is the program millrace."""

import os
import sys

from millrace.program import program


def main() -> None:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
