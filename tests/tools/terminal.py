"""What a program shows on a terminal of some width.

    terminal.py [--both] COLUMNS WORD...
                                    prints JSON: status; how often a line was drawn, the widest one, whether the
                                    last one was erased, whether there was any control character, and the text that stays

Progress is on standard error; standard output goes there too with --both, else nowhere.
"""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

ERASE = "\r\x1b[K"


def run(columns, words, both):
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=other if both else subprocess.DEVNULL,
                               stderr=other)
    os.close(other)
    output = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # the program has closed its end
            break
        if not piece:
            break
        output += piece
    return process.wait(), output.decode().replace("\r\n", "\n")


def main(columns, words, both):
    status, output = run(columns, words, both)
    drawn = [piece for piece in output.split(ERASE)[1:] if piece and not piece.endswith("\n")]
    stays = "".join(piece for piece in output.split(ERASE) if piece.endswith("\n"))
    print(json.dumps({
        "status": status,
        "drawn": len(drawn),
        "widest": max(map(len, drawn), default=0),
        "erased": output.endswith(ERASE) or output.endswith("\n") or not output,
        "controls": bool(re.search(r"[\x00-\x09\x0b-\x1f]", output)),
        "lines": drawn,
        "text": stays if ERASE in output else output,
    }))


both = sys.argv[1] == "--both"
main(int(sys.argv[1 + both]), sys.argv[2 + both:], both)
