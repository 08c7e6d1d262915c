"""What SHOW GRANTS says, as an answer to "may I?". The server includes active roles; partial revokes are heeded."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from orchestrator.mysql.session import Session

_LINE = re.compile(
    r"^(GRANT|REVOKE) (?P<rights>.+?) ON (?P<on>\*\.\*|`(?:[^`]|``)*`\.(?:\*|`(?:[^`]|``)*`)) (?:TO|FROM) "
)
_NAME = re.compile(r"`((?:[^`]|``)*)`|(\*)")
_ON_COLUMNS = re.compile(r"\w[\w ]*\([^)]*\)")
ALL_PRIVILEGES = "ALL PRIVILEGES"


class _Given(Struct, frozen=True):
    """Rights on ``*.*`` (both None), on a schema (a pattern), or on one table; never those on single columns."""

    rights: frozenset[str]
    schema: str | None
    table: str | None


class Rights(Struct, frozen=True):
    """The account's rights. ``literal``: schema names in grants are no patterns (partial_revokes is on)."""

    given: tuple[_Given, ...]
    revoked: tuple[_Given, ...]
    literal: bool

    def everywhere(self, right: str) -> bool:
        return any(g.schema is None and _covers(g, right) for g in self.given)

    def on_schema(self, right: str, schema: str) -> bool:
        """Whether the right holds for every table of the schema."""
        if any(_covers(g, right) and g.table is None and self._names(g, schema) for g in self.given):
            return True
        taken = any(right in r.rights and r.schema == schema for r in self.revoked)
        return self.everywhere(right) and not taken

    def on_table(self, right: str, schema: str, table: str) -> bool:
        return self.on_schema(right, schema) or any(
            _covers(g, right) and g.schema == schema and g.table == table for g in self.given
        )

    def shown_for(self, schema: str, rights: Sequence[str]) -> bool:
        """Whether one grant names the schema, or every one, and has all these rights; behind an escaped name: ALL."""
        return any(
            given.table is None
            and (
                (given.schema in (None, schema) and all(_covers(given, right) for right in rights))
                or (ALL_PRIVILEGES in given.rights and self._names(given, schema))
            )
            for given in self.given
        )

    def _names(self, given: _Given, schema: str) -> bool:
        if given.schema is None:
            return False
        return given.schema == schema if self.literal else bool(_pattern(given.schema).fullmatch(schema))


def _covers(given: _Given, right: str) -> bool:
    return right in given.rights or ALL_PRIVILEGES in given.rights


def _pattern(written: str) -> re.Pattern[str]:
    """A schema name in a GRANT: ``%`` and ``_`` are wildcards unless a backslash stands before them."""
    pieces = re.findall(r"\\.|.", written, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(p, re.escape(p[-1])) for p in pieces), re.DOTALL)


def parse_grants(lines: list[str], literal: bool = False) -> Rights:
    """The lines of SHOW GRANTS; those about roles, proxies and routines say nothing of tables and are skipped."""
    given: list[_Given] = []
    revoked: list[_Given] = []
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        schema, table = _object(match["on"])
        whole = _ON_COLUMNS.sub("", match["rights"])
        rights = frozenset(r.strip().upper() for r in whole.split(",") if r.strip())
        (given if match[1] == "GRANT" else revoked).append(_Given(rights, schema, table))
    return Rights(tuple(given), tuple(revoked), literal)


def _object(written: str) -> tuple[str | None, str | None]:
    names = [None if star else quoted.replace("``", "`") for quoted, star in _NAME.findall(written)]
    return (names[0], names[1]) if len(names) == 2 else (None, None)


def read_rights(session: Session) -> Rights:
    """The rights of this session's account, with its active roles. Needs no privilege. Raises ServerError."""
    lines = [str(line) for (line,) in session.query("SHOW GRANTS")]
    row = session.one("SHOW GLOBAL VARIABLES LIKE 'partial_revokes'")
    return parse_grants(lines, literal=row is not None and row[1] == "ON")
