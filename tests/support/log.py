"""What a server was sent, word by word, for laws about statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from orchestrator.sandbox.server import Server
from tests.support.servers import script, sql

# Known only when it runs: the epoch, the salt of a new flag row, the keys of a sweep, values of a moment.
_PLACEHOLDER = re.compile(r":epoch|:salt|:keys|%s")


@contextmanager
def general_log(server: Server) -> Iterator[None]:
    """The server writes every statement into mysql.general_log inside; the log is empty before and after."""
    ((was,),) = sql(server, "SELECT @@GLOBAL.log_output")
    script(server, "TRUNCATE TABLE mysql.general_log; SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON")
    try:
        yield
    finally:
        script(server, f"SET GLOBAL general_log = OFF; SET GLOBAL log_output = '{was}'; TRUNCATE mysql.general_log")


def said(server: Server, user: str = "rollout") -> list[str]:
    """What the log has of an account's statements, in their order."""
    rows = sql(
        server,
        "SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log"
        " WHERE user_host LIKE %s AND command_type IN ('Query', 'Execute', 'Prepare')",
        (f"{user}[%",),
    )
    return [str(row[0]) for row in rows]


def apart(text: str) -> Sequence[str]:
    """A packet is shown as one text; a trigger's body is one statement, whatever is in it."""
    return text.split(";\n") if text.startswith("START TRANSACTION") else (text,)


def as_run(shown: str) -> re.Pattern[str]:
    """The statement as the server gets it, whatever its placeholders become."""
    return re.compile(".+?".join(re.escape(part) for part in _PLACEHOLDER.split(shown)), re.DOTALL)
