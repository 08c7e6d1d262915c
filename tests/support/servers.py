"""Real servers for tests: a pair that dies with pytest, plain SQL on any server, and waiting by asking."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pymysql
import pymysql.constants.CLIENT
from pymysql.cursors import Cursor

from orchestrator.sandbox.pair import Pair, start_pair
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import OPERATOR, ROOT, Account

T = TypeVar("T")
Row = tuple[Any, ...]

# Reads until pytest is gone, however it went, and then ends what pytest started.
_GUARD = """
import shutil
import sys
from pathlib import Path
sys.stdin.buffer.read()
from orchestrator.errors import RolloutError
from orchestrator.sandbox.pair import load
try:
    load(Path(sys.argv[1])).remove()
except RolloutError:
    pass
finally:
    shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


@contextmanager
def guarded_pair() -> Iterator[Pair]:
    """A running pair in a folder of its own. Gone afterwards, also when this process is killed with SIGKILL."""
    folder = Path(tempfile.mkdtemp(prefix="rollout-pair-"))
    guard = subprocess.Popen([sys.executable, "-c", _GUARD, str(folder)], stdin=subprocess.PIPE, start_new_session=True)
    try:
        pair = start_pair(folder)
        try:
            yield pair
        finally:
            pair.remove()
    finally:
        guard.communicate(timeout=60)


def connect(
    server: Server, account: Account = OPERATOR, database: str | None = None, **options: Any
) -> pymysql.Connection[Cursor]:
    """A session over TCP, autocommit unless told otherwise; the caller closes it."""
    settings: dict[str, Any] = {
        "host": server.host,
        "port": server.port,
        "user": account.user,
        "password": account.password,
        "database": database,
        "charset": "utf8mb4",
        "autocommit": True,
        "connect_timeout": 10,
        "read_timeout": 100,
    }
    return pymysql.connect(**(settings | options))


def sql(
    server: Server, text: str, args: Sequence[Any] | None = None, *, account: Account = OPERATOR, **options: Any
) -> list[Row]:
    """Runs one statement in a session of its own (``account`` is rollout's own by default) and gives its rows."""
    with closing(connect(server, account, **options)) as session, session.cursor() as cursor:
        cursor.execute(text, args)
        return list(cursor.fetchall())


def script(server: Server, text: str, database: str | None = None) -> None:
    """Runs several statements in one session as root, in the server's own parse (``;`` inside strings is safe)."""
    flags = pymysql.constants.CLIENT.MULTI_STATEMENTS
    with closing(connect(server, ROOT, database, client_flag=flags)) as session, session.cursor() as cursor:
        cursor.execute(text)
        while cursor.nextset():
            pass


def wait_for(predicate: Callable[[], T | None], deadline_s: float = 20.0, what: str = "") -> T:
    """The first true answer of ``predicate``, asked every 20 ms; AssertionError after ``deadline_s``."""
    end = time.monotonic() + deadline_s
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what or predicate}")
        time.sleep(0.02)


def wait_caught_up(pair: Pair, deadline_s: float = 60.0) -> None:
    """Returns when the replica has applied all that the primary has committed by now."""
    ((gtids,),) = sql(pair.primary, "SELECT @@GLOBAL.gtid_executed")
    ((timed_out,),) = sql(pair.replica, "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)", (gtids, deadline_s))
    assert timed_out == 0, f"replica not caught up within {deadline_s} s"
