"""What the body of a mirror's trigger may be: ours against what it could be, and against what breaks a law but shows
where the cost is (ADR 0052)."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from msgspec.structs import replace

from benchmarks.blocked import ground
from benchmarks.figures import Figure
from benchmarks.mirror import Mirror
from orchestrator.model.contract import TableName
from orchestrator.mysql import quote
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.sql.mirror import create_trigger, drop_trigger, new, old, trigger_name
from orchestrator.sandbox.template import ROOT
from orchestrator.settings import Secret, ServerSettings

_CPU = (
    "SELECT SUM(SUM_CPU_TIME) FROM performance_schema.events_statements_summary_by_thread_by_event_name"
    " WHERE THREAD_ID = PS_CURRENT_THREAD_ID() AND EVENT_NAME IN ('statement/sql/update', 'statement/sql/insert')"
)
_ROUNDS = 9
_STATEMENTS = 150
_BULK_ROWS = 500
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
    """CPU of the server for one statement (500 rows in a bulk) in a transaction that is rolled back, the least of the
    rounds, ÷ the same without any trigger; all variants in turns within a round. What else the machine does is no CPU
    of that thread."""
    with ground() as bench:
        mirror, table = Mirror(bench), bench.contract.table
        _count_cpu(bench.site.settings)
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
    ours, bare = taken[kind, variant], taken[kind, ""]
    note = f"median {statistics.median(ours):.0f}, without a trigger {statistics.median(bare):.0f}"
    return Figure(f"mirror_body_{variant}_{kind}", min(ours), "µs of CPU", min(bare), note=note)


def _count_cpu(settings: ServerSettings) -> None:
    """The server counts the CPU of each thread's statements only when it is asked to."""
    root = replace(settings, user=ROOT.user, password=Secret(ROOT.password))
    with closing(Session(root, role="bench")) as session:
        session.execute("UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME LIKE '%cpu%'")


def _statements(table: str, mirror: Mirror) -> dict[str, Sequence[str]]:
    ids = [quote.text(str(i)) for i in mirror.ids[:_STATEMENTS]]
    states = ("pending", "processing", "completed", "failed")
    user, last = quote.text(str(mirror.user)), quote.text(str(mirror.ids[_BULK_ROWS - 1]))
    return {
        "update": [f"UPDATE {table} SET status = '{states[n % 4]}' WHERE id = {i}" for n, i in enumerate(ids)],
        "other_update": [f"UPDATE {table} SET priority = {n % 9 + 1} WHERE id = {i}" for n, i in enumerate(ids)],
        "bulk": [f"UPDATE {table} SET status = '{state}' WHERE id <= {last}" for state in states],
        "bulk_other": [f"UPDATE {table} SET priority = {n % 9 + 1} WHERE id <= {last}" for n in range(4)],
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
    began = int(session.value(_CPU))
    session.packet(("START TRANSACTION", *statements, "ROLLBACK"))
    return (int(session.value(_CPU)) - began) / len(statements) / 1e6
