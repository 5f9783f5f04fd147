"""What a real shell on a terminal makes of a command line when TAB is pressed.

    shell_completion.py SHELL PROGRAM FOLDER LINE...    prints the lines that they become, as JSON

The shell is bash, zsh or fish, without the user's settings. PROGRAM is called millrace in it, and FOLDER is
where it works.
"""

import fcntl
import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import termios
import time

SETUP = {
    "bash": r"""
source <(millrace completion bash)
__show() { printf '%s' "$READLINE_LINE" > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; READLINE_LINE=; READLINE_POINT=0; }
bind -x '"\C-g": __show'
bind 'set bell-style none'
""",
    "zsh": r"""
autoload -Uz compinit && compinit -u -d "$SHOWN.dump"
source <(millrace completion zsh)
zstyle ':completion:*' menu no
unsetopt automenu listbeep
__show() { print -rn -- "$BUFFER" > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; BUFFER= }
zle -N __show
bindkey '^G' __show
""",
    "fish": r"""
millrace completion fish | source
function __show; printf '%s' (commandline) > "$SHOWN.new"; mv "$SHOWN.new" "$SHOWN"; commandline ''; end
bind \cg __show
""",
}
COMMANDS = {
    "bash": ["bash", "--noprofile", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}


class Shell:
    def __init__(self, shell, program, folder, place):
        os.symlink(program, os.path.join(place, "millrace"))
        self.shown = os.path.join(place, "shown")
        setup = os.path.join(place, "setup")
        with open(setup, "w") as file:
            file.write(SETUP[shell] + f'\necho ready > "$SHOWN"\n')
        environment = dict(os.environ, PATH=place + ":" + os.environ["PATH"], SHOWN=self.shown,
                           TERM="xterm", HOME=place, XDG_CONFIG_HOME=place, PS1="$ ", COLUMNS="100")
        self.main, other = pty.openpty()
        self.process = subprocess.Popen(COMMANDS[shell], stdin=other, stdout=other, stderr=other,
                                        cwd=folder, env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(other)
        self.output = b""
        self.type(f"source {setup}\r")
        self.wait()

    def type(self, text):
        os.write(self.main, text.encode())

    def wait(self):
        """For what __show writes; what the shell prints meanwhile is read, or it would stop."""
        end = time.monotonic() + 60
        while not os.path.exists(self.shown):
            assert time.monotonic() < end, self.output.decode(errors="replace")
            assert self.process.poll() is None, self.output.decode(errors="replace")
            if select.select([self.main], [], [], 0.02)[0]:
                self.output += os.read(self.main, 65536)
        with open(self.shown) as file:
            text = file.read()
        os.remove(self.shown)
        return text

    def completed(self, line):
        self.type(line + "\t\x07")
        return self.wait()

    def end(self):
        self.process.kill()
        self.process.wait()


def main(shell, program, folder, lines):
    with tempfile.TemporaryDirectory() as place:
        one = Shell(shell, program, folder, place)
        try:
            print(json.dumps([one.completed(line) for line in lines]))
        finally:
            one.end()


main(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3], sys.argv[4:])
