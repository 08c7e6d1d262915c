"""What a contract is compared with: one table as a server, a DDL file or a Prisma schema states it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Shape


class Source(Struct, frozen=True):
    """One file: its text with LF line ends, and the name by which findings call it."""

    path: str
    text: str


class Unsaid(Enum):
    """What a kind of source has no words for: never compared with it, because silence is no statement."""

    COLLATION = "collation"
    ON_UPDATE = "on-update"
    GENERATED = "generated"
    INVISIBLE = "invisible"
    ORDER = "order"
    CHECKS = "checks"
    EXPRESSIONS = "expressions"


class LiveValue(Struct, frozen=True):
    """A value that rows of a column hold now; None is NULL."""

    column: str
    value: str | None
    rows: int


class Target(Struct, frozen=True):
    """``lines``: where each thing stands, by kind and lower-case name; empty for a server.

    ``tables``: every table that the source knows, None when it knows all that there are (a server): a relation to a
    table outside of it is not missing, it is not said. ``values``: what lives in mapped columns; only a server says.
    """

    where: str
    shape: Shape
    lines: Mapping[tuple[str, str], int] = field(default_factory=dict)
    tables: frozenset[TableName] | None = None
    unsaid: frozenset[Unsaid] = frozenset()
    values: tuple[LiveValue, ...] = ()

    def line(self, thing: str, name: str) -> int:
        """The line of the thing, else of its table; 0 for a server."""
        return self.lines.get((thing, name.lower()), self.lines.get(("table", ""), 0))
