"""Colour, only where it repeats what the word says, and never off a terminal or with NO_COLOR."""

from __future__ import annotations

import os
import sys

_INKS = {
    "pass": "32",
    "done": "32",
    "finished": "32",
    "hold": "33",
    "held": "33",
    "paused": "33",
    "unseen": "33",
    "rolled-back": "33",
    "refuse": "31",
    "needs-human": "31",
    "stuck": "31",
}


def paint(word: str) -> str:
    """The word in its colour, or as it is."""
    ink = _INKS.get(word)
    if ink is None or not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return word
    return f"\x1b[{ink}m{word}\x1b[0m"
