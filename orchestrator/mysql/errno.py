"""Server errors by what must be done about them (measured: which of them roll back, which may be tried again)."""

from __future__ import annotations

import re
from enum import Enum


class Cure(Enum):
    """RETRY: roll back, back off, same again. RECONNECT: new session, then ask what happened. WAIT: the server is busy,
    later. TOPOLOGY: this is not the writable primary any more. SMALLER: a smaller batch. STOP: the same will fail
    again."""

    RETRY = "retry"
    RECONNECT = "reconnect"
    WAIT = "wait"
    TOPOLOGY = "topology"
    SMALLER = "smaller"
    STOP = "stop"


LOCK_WAIT_TIMEOUT = 1205
DEADLOCK = 1213
INTERRUPTED = 1317
SERVER_LOST = 2013
CANNOT_CONVERT = 3854
_CURES: dict[int, Cure] = (
    dict.fromkeys((LOCK_WAIT_TIMEOUT, DEADLOCK, INTERRUPTED, CANNOT_CONVERT, 1412, 3101, 3572), Cure.RETRY)
    | dict.fromkeys((0, 2006, SERVER_LOST, 2014, 2055, 1053, 1152, 1158, 1159, 1160, 1161, 4031, 1927), Cure.RECONNECT)
    | dict.fromkeys((1040, 1203, 1226, 2002, 2003, 3032), Cure.WAIT)
    | dict.fromkeys((1290, 1792, 1836), Cure.TOPOLOGY)
    | dict.fromkeys((1153, 1180, 1197, 3100), Cure.SMALLER)
)
# A file cannot be written, no room on the device, a table is full, no room for what is sorted.
NO_ROOM = frozenset({3, 28, 1021, 1026, 1114, 1878})
PRIVILEGE = frozenset({1044, 1142, 1143, 1227, 1370, 1095, 1401, 1419, 1410})
# What stops a batch and is no row's fault: a full or broken disk, a table, column, function or definer that is missing.
_OF_NO_ROW = frozenset({3, 28, 1021, 1026, 1030, 1036, 1049, 1054, 1114, 1146, 1305, 1449, 3675}) | PRIVILEGE
# These quote a value of the row in their text, first of all in single quotes.
_QUOTES_A_VALUE = frozenset({1062, 1292, 1366, 1367, 1411, 1525, 1586, 1859, 3140, 3141, 3156, 3903})
_QUOTED = re.compile(r"""(?:: )?['"].*['"](?= for (?:key|column) )|['"].*$""", re.DOTALL)
# The server's own bound of an error's text, in bytes.
_MOST_CHARACTERS = 512
LOGIN = frozenset({1045, 1698, 1862, 3118, 3879})


def _kept(text: str) -> str:
    whole = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return whole if len(whole) <= _MOST_CHARACTERS else whole[: _MOST_CHARACTERS - 1] + "…"


class ServerError(Exception):
    """The server, or the way to it, said no. ``number`` is MySQL's error number (0: the session object was dead), and
    all that anything is decided by. ``text`` goes into notes that are kept: at most 512 characters, all printable, for
    it may hold whatever a row or a trigger put into it, in any language."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = _kept(text)
        super().__init__(f"{number} {self.text}")

    @property
    def cure(self) -> Cure:
        return _CURES.get(self.number, Cure.STOP)

    @property
    def without_values(self) -> str:
        """The text without what it quotes of the row: values are never shown where nobody asked for them."""
        return _QUOTED.sub(" …", self.text, count=1).replace("  ", " ") if self.number in _QUOTES_A_VALUE else self.text

    @property
    def is_of_a_row(self) -> bool:
        """The same will fail again, and it is a row that fails: some smaller batch without it would pass."""
        return self.cure is Cure.STOP and self.number not in _OF_NO_ROW

    @property
    def is_privilege(self) -> bool:
        return self.number in PRIVILEGE
