"""Asking again when the server trips over somebody else's statement.

information_schema.INNODB_TRX cannot be read at all (3854) while any transaction runs a statement with a character
beyond
the utf8mb3 plane in its first kilobyte: the server converts the text to fill the table, whatever columns are asked for.
Such a statement is over in a moment; measured on 9.7.4, and no sql_mode or character set of ours changes it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from orchestrator.mysql.errno import CANNOT_CONVERT, ServerError
from orchestrator.mysql.session import Row, Session

_TRIES = 25
_PAUSE_S = 0.02


def ask_again(session: Session, sql: str, args: Sequence[object] = ()) -> list[Row]:
    """The rows of a query on INNODB_TRX, asked again for half a second. Raises ServerError as ``Session.query``
    does."""
    for _ in range(_TRIES):
        try:
            return session.query(sql, args)
        except ServerError as error:
            if error.number != CANNOT_CONVERT:
                raise
        time.sleep(_PAUSE_S)
    return session.query(sql, args)
