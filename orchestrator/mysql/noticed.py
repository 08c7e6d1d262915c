"""What an application would notice of the mirror: two runs of the same statements, held against each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from orchestrator.model.contract import Column
from orchestrator.mysql.relation import Relation
from orchestrator.mysql.sql.mirror_trial import Case

Row = tuple[object, ...]


class Setting(Struct, frozen=True):
    """Session settings of a client."""

    sql_mode: str
    time_zone: str


class Ran(Struct, frozen=True):
    """What one statement came to. ``number`` 0: it passed; ``rows``: the whole table afterwards, by its key."""

    case: Case
    number: int
    told: Row = ()
    rows: tuple[Row, ...] = ()


class Run(Struct):
    """All of one run, by (setting, what). ``unfit``: (pair, statement) whose value went nowhere."""

    ran: dict[tuple[Setting, str], Ran] = field(default_factory=dict)
    unfit: dict[tuple[str, str], str] = field(default_factory=dict)
    pace_us: dict[str, float] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class Difference(Struct, frozen=True):
    """A statement under one setting, and how the application would notice the mirror in it."""

    setting: Setting
    what: str
    how: str


def differences(without: Run, with_: Run, relation: Relation, columns: Sequence[Column]) -> list[Difference]:
    """Every statement that the application would notice: another error, count or insert id, or another value in a
    column that is its own."""
    found = []
    for (setting, what), plain in without.ran.items():
        mirrored = with_.ran[setting, what]
        if how := _noticed(plain, mirrored, columns, _ours(plain.case, relation)):
            found.append(Difference(setting, what, how))
    return found


def _ours(case: Case, relation: Relation) -> set[str]:
    """Columns that are the mirror's to set in that statement: new ones, and the partner of what it writes. What an
    UPDATE gives a column that does not follow is its own."""
    following = {d.new.name.lower() for d in relation.derived if d.follows}
    given = set() if case.inserts else case.writes - following
    mapped = {m.new.name.lower() for m in relation.mappings} - given
    return mapped | {p.old.name.lower() for p in relation.pairs if p.new.name.lower() in case.writes}


def _noticed(plain: Ran, mirrored: Ran, columns: Sequence[Column], ours: set[str]) -> str:
    if plain.number != mirrored.number:
        said = [f"error {n}" if n else "it passes" for n in (plain.number, mirrored.number)]
        return f"without the mirror {said[0]}, with it {said[1]}"
    if plain.told != mirrored.told and plain.case.counts:
        return f"(affected rows, insert id) {plain.told} become {mirrored.told}"
    if len(plain.rows) != len(mirrored.rows):
        return f"{len(plain.rows)} rows become {len(mirrored.rows)}"
    for before, after in zip(plain.rows, mirrored.rows, strict=True):
        for column, one, other in zip(columns, before, after, strict=True):
            if one != other and column.name.lower() not in ours and not _is_drawn(column):
                return f"{column.name} holds {_short(other)} instead of {_short(one)}"
    return ""


def _is_drawn(column: Column) -> bool:
    """Its default is an expression, which may give another value each time."""
    return column.default is not None and column.default.is_expression


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
