#!/usr/bin/env python3
"""Runs a command in a terminal and writes what it prints as a picture.

  tools/terminal_svg.py docs/inspect.svg metaneff inspect models/quickstart/model.neff

Only standard output is the terminal: a progress bar, which goes to standard error, is not drawn.
"""

import os
import pty
import re
import subprocess
import sys
from html import escape
from pathlib import Path

COLOURS = {"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341"}
CELL, LINE, MARGIN = 8.4, 18, 16


def shown(command: list[str]) -> str:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other side of a terminal is closed
            break
        if not part:
            break
        parts.append(part)
    process.wait()
    return b"".join(parts).decode().replace("\r\n", "\n")


def picture(title: str, text: str) -> str:
    lines = [f"$ {title}", *text.rstrip("\n").split("\n")]
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = 2 * MARGIN + CELL * max(map(len, plain))
    height = 2 * MARGIN + LINE * len(lines)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
        '<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" '
        'fill="#e6edf3" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        y = MARGIN + LINE * (number + 0.75)
        column, colour = 0, None
        for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
            if piece.startswith("\x1b"):
                codes = piece[2:-1].split(";")
                colour = next((COLOURS[code] for code in codes if code in COLOURS), None)
            elif piece:
                # The length keeps columns in line whatever font there is.
                fill = f' fill="{colour}"' if colour else ""
                out.append(f'<text x="{MARGIN + CELL * column:.1f}" y="{y:.1f}" '
                           f'textLength="{CELL * len(piece):.1f}"{fill}>{escape(piece)}</text>')
                column += len(piece)
    return "\n".join([*out, "</g>", "</svg>", ""])


def main() -> int:
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    target, command = Path(sys.argv[1]), sys.argv[2:]
    title = " ".join([Path(command[0]).name, *command[1:]])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(picture(title, shown(command)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
