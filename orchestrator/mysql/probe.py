"""One number from a query of the user's own: read-only, bounded in time, and never believed when it is not one
number."""

from __future__ import annotations

import contextlib
from decimal import Decimal

from orchestrator.errors import RolloutError
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.site import Site

# A query and nothing else can stand there: nothing that sets, calls, writes a file, or lifts the time limit by a hint.
_QUERY = "SELECT * FROM (\n{}\n) AS gate"


class NumberProbe:
    """Runs queries in sessions of their own, each in a read-only transaction that the query cannot end: it is one
    statement, and a query."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def read(self, sql: str, timeout_s: float) -> float | str:
        """The number, or in words why there is none. Never raises for what the query does."""
        try:
            with contextlib.closing(self._site.connect("gate", timeout_s=timeout_s + 1.0, reopens=False)) as session:
                session.pin("max_execution_time", max(1, round(timeout_s * 1000)))
                began = self._site.clock.monotonic()
                session.execute("START TRANSACTION READ ONLY")
                # Our sessions take several statements at once; what is prepared is one.
                session.execute("PREPARE gate FROM %s", (_QUERY.format(sql.rstrip("; \n\t")),))
                rows = session.query("EXECUTE gate")
                # What ends a query in time ends SLEEP() and its like with a number, and no error.
                if self._site.clock.monotonic() - began >= timeout_s:
                    return f"no answer within {timeout_s:g} s"
        except ServerError as error:
            return f"the server answered {error.number} {error.text}"
        except RolloutError as error:
            return error.seen
        if len(rows) != 1 or len(rows[0]) != 1:
            return f"{len(rows)} rows of {len(rows[0]) if rows else 0} columns instead of one number"
        value = rows[0][0]
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            return "NULL instead of a number" if value is None else f"a {type(value).__name__} instead of a number"
        return float(value)
