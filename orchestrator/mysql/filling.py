"""What a filling pass writes and what it must not pass by, rendered from the relation for one rule of conflict.

While the old column is the truth, every new column becomes what the old ones say. Once both were written, only rows
that do not correspond are touched: what is unset is filled, and a conflict stops the pass unless somebody decided it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from orchestrator.model.contract import Column
from orchestrator.model.facts import Shape
from orchestrator.mysql.relation import DerivedSql, PairSql, Relation, every, some
from orchestrator.mysql.sql.bounds import Ref
from orchestrator.mysql.sql.packets import Write
from orchestrator.mysql.sql.rows import inner_ref, ref
from orchestrator.mysql.values import Problem, both_shown, unwritable_problems

OnConflict = Literal["", "refuse", "new_wins", "old_wins"]
_Mapping = PairSql | DerivedSql
_Change = tuple[str, str]


class Source(Struct, frozen=True):
    """``written`` is computed from ``column``."""

    written: str
    column: Column


class FillRule(Struct, frozen=True):
    """``write`` is what happens to rows that are pending. A row for which ``blocked`` is 1 stops the pass before
    anything of its batch is written; ``problems`` say per mapping what is wrong with it. ``sources``: what each written
    column is computed from. ``wrong``: 1 for a row that does not hold what it should once it was filled: all that are
    pending or blocked, and no other; a row that is right costs one comparison."""

    write: Write
    blocked: str
    wrong: str
    problems: tuple[Problem, ...]
    expected: str
    next: str
    sources: tuple[Source, ...] = ()

    @property
    def counted(self) -> tuple[str, ...]:
        return (self.write.pending, self.blocked)


def fill_rule(relation: Relation, shape: Shape, on_conflict: OnConflict, mend: str) -> FillRule:
    """The rule of one pass; ``mend``: the command that takes somebody's word on a conflict. Pure."""
    if not on_conflict:
        return _old_is_truth(relation, shape)
    made = [_both_written(m, on_conflict) for m in relation.mappings]
    assignments = tuple(change for one in made for change in one.changes(ref))
    write = _write(lambda r: some(one.pending(r) for one in made), assignments, shape)
    problems = tuple(one.problem for one in made)
    return FillRule(
        write,
        some(f"{p.name} IS NOT NULL" for p in problems),
        f"NOT ({relation.corresponds(ref)})",
        problems,
        "rows whose old and new values correspond, or somebody who says which of them stays",
        f"{mend} --on-conflict new_wins (or old_wins)",
        _sources(relation),
    )


def _old_is_truth(relation: Relation, shape: Shape) -> FillRule:
    return FillRule(
        _write(relation.pending, relation.assignments(ref), shape),
        relation.unwritable(ref),
        f"NOT ({relation.holds(ref)})",
        unwritable_problems(relation, shape),
        "old values that the mapping knows, and that fit into the new column",
        "add the values to the runbook's mapping, or mend the rows; then type the same command again",
        _sources(relation),
    )


def _sources(relation: Relation) -> tuple[Source, ...]:
    """Both ways: a column that is not written by this rule is named by no error either."""
    forward = [Source(m.new.name, c) for m in relation.mappings for c in m.forward.columns]
    backward = [Source(p.old.name, c) for p in relation.pairs for c in p.backward.columns]
    return (*forward, *backward)


def _write(pending: Callable[[Ref], str], assignments: tuple[_Change, ...], shape: Shape) -> Write:
    assigned = {column.lower() for column, _ in assignments}
    kept = tuple(c.name for c in shape.columns if c.on_update and c.name.lower() not in assigned)
    return Write(pending(ref), pending(inner_ref), assignments, kept)


class _Mending(Struct, frozen=True):
    """How one mapping is mended: ``forward`` and ``backward`` are conditions under which the new or the old column is
    written; without either, a row that does not correspond is a problem."""

    mapping: _Mapping
    forward: Callable[[Ref], str]
    backward: Callable[[Ref], str] | None

    def pending(self, r: Ref) -> str:
        return some([self.forward(r), *([self.backward(r)] if self.backward else [])])

    def changes(self, r: Ref) -> tuple[_Change, ...]:
        new = self.mapping.new.name
        forward = (new, f"IF({self.forward(r)}, {self.mapping.forward.value(r)}, {r(new)})")
        if self.backward is None or not isinstance(self.mapping, PairSql):
            return (forward,)
        old = self.mapping.old.name
        return forward, (old, f"IF({self.backward(r)}, {self.mapping.backward.value(r)}, {r(old)})")

    @property
    def problem(self) -> Problem:
        name = f"IF({self.pending(ref)}, NULL, {self.mapping.mismatch_class(ref, 'corresponds')})"
        return Problem(self.mapping.name, name, both_shown(self.mapping, ref))


def _both_written(mapping: _Mapping, on_conflict: OnConflict) -> _Mending:
    def apart(r: Ref, *also: str | None) -> str:
        return every((f"NOT ({mapping.corresponds(r)})", *also))

    def fillable(r: Ref) -> str:
        return apart(r, mapping.unset.now(r), mapping.forward.ok(r))

    def forward(r: Ref) -> str:
        return apart(r, mapping.forward.ok(r))

    if isinstance(mapping, DerivedSql) or on_conflict == "old_wins":
        return _Mending(mapping, forward, None)
    if on_conflict == "refuse":
        return _Mending(mapping, fillable, None)
    backwards = mapping.backward

    def backward(r: Ref) -> str:
        return apart(r, f"NOT ({mapping.unset.now(r)})", backwards.ok(r))

    return _Mending(mapping, fillable, backward)
