"""What the body of a mirror's trigger may be: ours against what it could be, and against what breaks a law but shows
where the cost is (ADR 0052)."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from benchmarks.blocked import ground
from benchmarks.figures import Figure
from benchmarks.mirror import Mirror
from orchestrator.model.contract import TableName
from orchestrator.mysql import quote
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.sql.mirror import create_trigger, drop_trigger, new, old, trigger_name

_ROUNDS = 9
_STATEMENTS = 150
_WHOLE_ROW = re.compile(r"(HANDLER[^\n]*\n)  IF NOT \(.*?\) THEN\n(.*)\n  END IF;\nEND$", re.DOTALL)
Change = Callable[[str, Relation], str]


def _ours(text: str, relation: Relation) -> str:
    return text


def _pair_by_pair(text: str, relation: Relation) -> str:
    """Without the question about the whole row first, which an UPDATE of other columns ends with."""
    return _WHOLE_ROW.sub(r"\1\2\nEND", text)


def _no_handler(text: str, relation: Relation) -> str:
    """BREAKS A LAW where an expression may raise."""
    return "\n".join(line for line in text.splitlines() if " HANDLER " not in line)


def _body(text: str, lines: Sequence[str]) -> str:
    return "\n".join([text[: text.index("\nBEGIN")], "BEGIN", *lines, "END"])


def _one_way(text: str, relation: Relation) -> str:
    """BREAKS A LAW: n := f(o) always; what only corresponds is overwritten, and what the new application writes too."""
    return _body(text, [f"SET {new(p.new.name)} = {p.forward.or_else(new, new(p.new.name))};" for p in relation.pairs])


def _two_sets(text: str, relation: Relation) -> str:
    """No IF, two assignments a pair. BREAKS A LAW: a NULL set into a column that takes none is an error."""
    lines = []
    for p in relation.pairs:
        n, o, holds = new(p.new.name), new(p.old.name), p.holds(new)
        before = old if "BEFORE UPDATE" in text else None
        written = p.changed(p.new_side, before, new) if before else f"NOT ({p.unset.on_insert(new)})"
        moved = f"{p.changed(p.old_side, before, new)} OR {p.unset.now(new)}" if before else f"NOT ({written})"
        lines.append(f"SET {o} = IF(NOT ({holds}) AND ({written}), {p.backward.or_else(new, o)}, {o});")
        forward = f"NOT ({holds}) AND ({moved}) AND NOT ({written}) AND NOT ({p.goes_back(new)})"
        lines.append(f"SET {n} = IF({forward}, {p.forward.or_else(new, n)}, {n});")
    return _body(text, lines)


def _empty(text: str, relation: Relation) -> str:
    """BREAKS EVERY LAW: what any trigger costs."""
    return _body(text, [])


VARIANTS: dict[str, Change] = {
    "ours": _ours,
    "pair_by_pair": _pair_by_pair,
    "no_handler": _no_handler,
    "two_sets": _two_sets,
    "one_way": _one_way,
    "empty": _empty,
}


def bodies() -> Sequence[Figure]:
    """Microseconds of one statement in a transaction that is rolled back, above those without any trigger, median of
    the rounds; all variants in turns within a round."""
    with ground() as bench:
        mirror, table = Mirror(bench), bench.contract.table
        with closing(bench.site.connect("bench", timeout_s=120.0)) as session:
            shape = read_shape(session, table)
            if shape is None:
                raise RuntimeError(f"{table} is not there")
            relation = load_relation(session, bench.contract, shape)
            kinds = _statements(quote.table(table), mirror)
            taken: dict[tuple[str, str], list[float]] = {}
            for number in range(_ROUNDS):
                names = ["", *VARIANTS]
                for variant in names if number % 2 == 0 else reversed(names):
                    with _standing(session, (table, bench.site.runbook.id), relation, variant):
                        for kind, statements in kinds.items():
                            taken.setdefault((kind, variant), []).append(_us(session, statements))
    return tuple(_figure(kind, variant, taken) for kind in kinds for variant in VARIANTS)


def _figure(kind: str, variant: str, taken: dict[tuple[str, str], list[float]]) -> Figure:
    """Ratios are made within a round, where the machine was alike."""
    ours, bare = taken[kind, variant], taken[kind, ""]
    each = sorted(a / b for a, b in zip(ours, bare, strict=True))
    note = f"without a trigger {statistics.median(bare):.0f}; ratio {each[0]:.2f} to {each[-1]:.2f}"
    return Figure(f"mirror_body_{variant}_{kind}", statistics.median(each), "× no trigger", note=note)


def _statements(table: str, mirror: Mirror) -> dict[str, Sequence[str]]:
    ids = [quote.text(str(i)) for i in mirror.ids[:_STATEMENTS]]
    states = ("pending", "processing", "completed", "failed")
    user = quote.text(str(mirror.user))
    return {
        "update": [f"UPDATE {table} SET status = '{states[n % 4]}' WHERE id = {i}" for n, i in enumerate(ids)],
        "update_of_another_column": [
            f"UPDATE {table} SET sessionId = 's{n}' WHERE id = {i}" for n, i in enumerate(ids)
        ],
        "insert": [
            f"INSERT INTO {table} (id, userId, status, retryCount) VALUES ('bench{n}', {user}, '{states[n % 4]}', 1)"
            for n in range(_STATEMENTS)
        ],
    }


@contextmanager
def _standing(session: Session, of: tuple[TableName, str], relation: Relation, variant: str) -> Iterator[None]:
    """Both triggers with that body; none for "". ``of``: the table, and the rollout."""
    table, id = of
    names = {event: trigger_name(id, event) for event in ("update", "insert")} if variant else {}
    session.execute("SET SESSION sql_mode = ''")
    for event, name in names.items():
        session.execute(VARIANTS[variant](create_trigger(relation, table, event, name, ""), relation))
    session.execute("SET SESSION sql_mode = DEFAULT")
    try:
        yield
    finally:
        for name in names.values():
            session.execute(drop_trigger(table, name, ""))


def _us(session: Session, statements: Sequence[str]) -> float:
    began = time.perf_counter()
    session.packet(("START TRANSACTION", *statements, "ROLLBACK"))
    return (time.perf_counter() - began) / len(statements) * 1e6
