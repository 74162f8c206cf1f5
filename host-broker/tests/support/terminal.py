"""Runs a program on a terminal of its own, and prints what the terminal shows.

    terminal.py ANSWERS PROGRAM [ARGUMENT...]

Each character of ANSWERS is the answer to one question that ends with "[y/N]".
"""

import os
import pty
import sys

answers = list(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[2], sys.argv[2:])
shown = b""
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        part = b""  # The program has ended.
    if not part:
        break
    shown += part
    if answers and shown.endswith(b"[y/N] "):
        os.write(terminal, answers.pop(0).encode() + b"\n")
os.waitpid(child, 0)
sys.stdout.buffer.write(shown)
