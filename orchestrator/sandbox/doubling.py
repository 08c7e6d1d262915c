"""What the applications say while they are asked to write both columns: their own statements, each with the other
column of every pair beside it, and with the derived columns that nobody else fills."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from orchestrator.model.contract import Copy
from orchestrator.model.contract import Mapping as Mapped
from orchestrator.model.types import Family
from orchestrator.mysql.sql.doubling import Addition, insert_beside, quoted, update_beside, value_of
from orchestrator.sandbox.mapping import PairModel, TableModel, default_value
from orchestrator.sandbox.script import Operation, Script
from orchestrator.sandbox.statements import Kind, Statement, for_driver, parse

_Text = Callable[[str], str]


def doubled(script: Script, model: TableModel, table: str) -> Script:
    """The script whose writes to ``table`` write both columns. Raises ValueError for what the ledger cannot follow."""

    def both(operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        return tuple(replace(o, statements=tuple(_both(s, model, table) for s in o.statements)) for o in operations)

    return replace(script, old=both(script.old), new=both(script.new))


def _both(statement: Statement, model: TableModel, table: str) -> Statement:
    if statement.table.lower() != table.lower():
        return statement
    match statement.kind:
        case Kind.UPDATE:
            assigned = {name for name, _ in statement.assigned}
            pairs = [a for p in model.pairs if (a := _partner(p, assigned)) is not None]
            derived = [_derived(m, {}) for m in model.fills if m.follows]
            return _with(statement, update_beside(statement.text, pairs), lambda text: update_beside(text, derived))
        case Kind.INSERT:
            return _both_inserted(statement, model)
        case _:
            return statement


def _both_inserted(statement: Statement, model: TableModel) -> Statement:
    given = set(statement.inserted[0])
    assigned = {name for name, _ in statement.assigned}
    pairs = [a for p in model.pairs for a in _inserted(p, given)]
    again = [a for p in model.pairs if (a := _partner(p, assigned)) is not None]
    defaults = {
        n: c.default.text for n, c in model.columns.items() if c.default is not None and c.default.is_expression
    }
    unset = {name: text for name, text in defaults.items() if name not in given}
    derived = [_derived(m, unset) for m in model.fills if m.new.lower() not in given]
    followed = [_derived(m, {}) for m in model.fills if m.follows] if assigned else []
    return _with(
        statement,
        insert_beside(statement.text, pairs, again),
        lambda text: insert_beside(text, derived, followed),
    )


def _inserted(pair: PairModel, given: set[str]) -> list[Addition]:
    """What an INSERT names besides: the partner of what it gives; both columns where it gives neither, unless their
    defaults correspond."""
    old, new = pair.names
    if {old, new} & given:
        partner = _partner(pair, given)
        return [] if partner is None else [partner]
    if pair.corresponds({old: default_value(pair.old), new: default_value(pair.new)}):
        return []
    default = pair.old.default
    stored = "NULL" if default is None else default.text if default.is_expression else quoted(default.text)
    partner = _partner(pair, {old})
    return [(pair.old.name, stored)] + ([] if partner is None else [partner])


def _with(statement: Statement, text: str, more: _Text) -> Statement:
    """The statement as ``text``, which the ledger follows, and sent with ``more``, which it does not."""
    return replace(parse(text), sql=for_driver(more(text))[0])


def _partner(pair: PairModel, written: set[str]) -> Addition | None:
    """The other column of the pair with its value; None when both are written, or none is."""
    old, new = pair.names
    mapping = pair.mapping
    if old in written and new not in written:
        number = pair.new.type.family is Family.INTEGER
        return pair.new.name, value_of(mapping.forward, pair.old.name, number=number)
    if new in written and old not in written and mapping.backward is not None:
        number = pair.old.type.family is Family.INTEGER
        return pair.old.name, value_of(mapping.backward, pair.new.name, number=number)
    return None


def _derived(mapping: Mapped, unset: Mapping[str, str]) -> Addition:
    """``unset``: expressions of columns that the server gives their default itself, where they cannot be read yet."""
    if isinstance(mapping.forward, Copy) and mapping.old is not None and mapping.old.lower() in unset:
        return mapping.new, unset[mapping.old.lower()]
    return mapping.new, value_of(mapping.forward, mapping.old or "", number=False)
