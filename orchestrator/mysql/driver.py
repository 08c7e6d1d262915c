"""What the driver raises, as errors of ours: nobody outside the sessions knows the driver's own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pymysql

from orchestrator.mysql.errno import SERVER_LOST, Cure, ServerError


@contextlib.contextmanager
def driver_errors(close: Callable[[], None]) -> Iterator[None]:
    """Whatever the driver raises inside is a ServerError; ``close`` is called before it when the connection is gone."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        args = error.args
        number = args[0] if args and isinstance(args[0], int) else 0
        translated = ServerError(number, str(args[1]) if len(args) > 1 else str(error))
        if translated.cure is Cure.RECONNECT:
            close()
        raise translated from error
    except (OSError, ValueError, AttributeError) as error:
        # A socket that dies under the driver shows as one of these, depending on where it was.
        close()
        raise ServerError(SERVER_LOST, f"the session broke: {type(error).__name__}") from error
