"""What a contract promises of rows that are there already, asked of each of them in the scan of live values.

NOT NULL: the server would refuse the statement (1138), or make up a value where it is not strict; neither is awaited.
CHECK: it is declared NOT ENFORCED, so the server asks no row. Here each row is tried with the values that the mappings
would fill in: one that breaks the CHECK would keep everybody from ever enforcing it (3819).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Check, Column, Contract
from orchestrator.model.facts import BROKEN, NULLS, UNTRIED, Shape, ValueCount, ValueScan
from orchestrator.model.types import parse_type
from orchestrator.mysql import quote
from orchestrator.mysql.columns import columns_after_ddl
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.expression import Columns, Parsed, parse
from orchestrator.mysql.relation import DerivedSql, Relation
from orchestrator.mysql.rules import null_of
from orchestrator.mysql.scan import Reach, scan_values
from orchestrator.mysql.session import Session
from orchestrator.mysql.sql.rows import ref
from orchestrator.mysql.unset import unset_of
from orchestrator.mysql.values import Problem, foreign_problems, value_sql
from orchestrator.ports import Clock

_MOST_ROWS = 2_000_000
_MOST_S = 30.0


def scan_promised(
    session: Session, relation: Relation, contract: Contract, shape: Shape, clock: Clock, not_ours: Sequence[Column]
) -> ValueScan:
    """``scan_values`` with what the contract promises, in the same pass, and with values in ``not_ours``: new columns
    that no step of ours added, in which only somebody else can have put any.

    A CHECK that cannot be tried, or that raises on a row, is a problem of its own, and hides no other. Raises as
    ``scan_values``."""
    reach, row = Reach(_MOST_ROWS, _MOST_S, clock), _Filled(contract, relation, shape)
    also = (*foreign_problems(relation, not_ours), *_nulls(contract, shape))
    tried, untried = list[Problem](), list[ValueCount]()
    for check in contract.checks:
        try:
            tried.append(row.broken(check))
        except RunbookError as error:
            untried.append(_untried(check, error.seen))
    try:
        scan = scan_values(session, relation, shape, reach, (*also, *tried))
    except ServerError as error:
        if not tried or error.cure is not Cure.STOP:
            raise
        scan = scan_values(session, relation, shape, reach, also)
        untried += [_untried(check, f"{error.number} {error.text}") for check in contract.checks]
    return replace(scan, problems=(*scan.problems, *untried))


def _untried(check: Check, why: str) -> ValueCount:
    return ValueCount(_named(check), why, 0, (), UNTRIED)


def _named(check: Check) -> str:
    return f"CHECK {check.name} ({check.sql})"


def _nulls(contract: Contract, shape: Shape) -> tuple[Problem, ...]:
    """NULLs in columns that are there and of which the contract says NOT NULL."""
    wanted = [(c, shape.column(c.name)) for c in (*contract.columns, *contract.changes) if not c.null]
    return tuple(
        Problem(f"column {live.name}", f"IF({ref(live.name)} IS NULL, {quote.text(NULLS)}, NULL)", "NULL")
        for _, live in wanted
        if live is not None and live.null
    )


class _Filled(Struct, frozen=True):
    """A row ``t`` as it will be when ddl and backfill are done, as SQL over what it is now."""

    contract: Contract
    relation: Relation
    shape: Shape

    def broken(self, check: Check) -> Problem:
        """Raises RunbookError for a condition that depends on more than the row."""
        parsed = self._parsed(check)
        name = f"IF(({parsed.render(self.value)}) IS FALSE, {quote.text(BROKEN)}, NULL)"
        shown = [value_sql(c, self.value(c.name)) for c in parsed.columns]
        return Problem(_named(check), name, f"CONCAT_WS(', ', {', '.join(shown)})" if shown else "''")

    def value(self, name: str) -> str:
        """NULL where a mapping has no value for it: such a row is a problem of the mapping."""
        column, live = self._columns[name.lower()], self.shape.column(name)
        mapping = next((m for m in self.relation.mappings if m.new.name.lower() == name.lower()), None)
        if mapping is not None:
            given = mapping.forward.or_else(ref, null_of(mapping.new))
            once = isinstance(mapping, DerivedSql) and not mapping.follows and live is not None
            return f"IF({mapping.unset.now(ref)}, {given}, {ref(name)})" if once else f"({given})"
        if live is not None:
            return ref(live.name)
        renamed = next((r.old for r in self.contract.renames_in_place if r.new.lower() == name.lower()), None)
        if renamed is not None:
            return ref(renamed)
        return self._unfilled(column)

    def _unfilled(self, column: Column) -> str:
        """A new column that no mapping writes, in a row that was there before it."""
        if column.generated is not None:
            return parse(column.generated, self._columns, f"column {column.name}").render(self.value)
        if column.default is not None and column.default.is_expression and column.null:
            return null_of(column)
        inserted = unset_of(column, f"column {column.name}").inserted
        return null_of(column) if inserted in (None, "NULL") else f"({inserted})"

    @property
    def _columns(self) -> dict[str, Column]:
        columns = columns_after_ddl(self.contract, self.shape)
        pairs = ((r.new, columns.get(r.old.lower())) for r in self.contract.renames_in_place)
        return columns | {new.lower(): replace(old, name=new) for new, old in pairs if old is not None}

    def _parsed(self, check: Check) -> Parsed:
        """A TIMESTAMP is compared in the session's time zone: once that is no reason to refuse, as a CHECK does so."""
        columns, what = self._columns, f"check {check.name}"
        try:
            return parse(check.sql, columns, what)
        except RunbookError:
            return parse(check.sql, _without_instants(columns), what)


def _without_instants(columns: Columns) -> dict[str, Column]:
    return {
        name: replace(c, type=parse_type(f"datetime({c.type.length or 0})")) if c.type.base == "timestamp" else c
        for name, c in columns.items()
    }
