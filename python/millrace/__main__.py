"""``python -m millrace ...`` is the program millrace."""

import os
import sys

from millrace.errors import NotFoundError
from millrace.program import program


def main() -> None:
    try:
        path = program()
    except NotFoundError as error:
        sys.exit(f"error: {error}")
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
