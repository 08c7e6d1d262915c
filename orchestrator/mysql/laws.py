"""What a contract's mappings may not do on this table: the laws that need the live shape, judged without a server.

A mirror sets a partner column inside the application's own statement. So the partner must be free of everything that
could make that statement fail, or touch another row: unique keys, foreign keys, checks. And of its source it must see
every change: cascades.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation

from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, Copy, Expression, Mapping, Transform, Unmapped, ValueMap
from orchestrator.model.facts import Shape
from orchestrator.model.verdict import Problem, ProblemKind
from orchestrator.mysql.columns import columns_after_ddl
from orchestrator.mysql.expression import Columns, parse
from orchestrator.mysql.tokens import TokenKind, tokenise

_DELETE_CHANGES = frozenset(["SET NULL", "SET DEFAULT"])
_UPDATE_CHANGES = _DELETE_CHANGES | {"CASCADE"}
_UNKNOWN = object()


def check_pairs(contract: Contract, shape: Shape) -> Sequence[Problem]:
    """Every law that a mapping breaks on this table. Pure; the same before and after ddl."""
    columns = columns_after_ddl(contract, shape)
    return [
        problem
        for mapping in contract.mappings
        for problem in (*_columns(mapping, contract, columns), *_partners(mapping, contract, shape, columns))
    ]


def _problem(rule: str, seen: str, expected: str, next: str) -> Problem:
    return Problem(ProblemKind.RUNBOOK, rule, seen, expected, next)


def _columns(mapping: Mapping, contract: Contract, columns: Columns) -> Iterator[Problem]:
    """Each column exists, is read from the right side, and is one that a BEFORE trigger sees and sets."""
    added = {c.name.lower() for c in contract.columns}
    for role, name in (("old", mapping.old), ("new", mapping.new)):
        if name is not None and name.lower() not in columns:
            yield _problem(
                "mapping-column",
                f"{mapping}: there is no {role} column {name}",
                "an old column of the table and a new column of the contract",
                "correct the mapping",
            )
    if mapping.old is not None and mapping.old.lower() in added:
        yield _chain(mapping, f"its old column {mapping.old} is added by the contract")
    yield from _sources(mapping, mapping.forward, added, columns)
    mirrored = {(m.old or "").lower() for m in contract.pairs} | {m.new.lower() for m in contract.mappings}
    yield from _sources(mapping, mapping.backward, mirrored - {mapping.new.lower()}, columns)
    for name in (mapping.old, mapping.new):
        column = columns.get((name or "").lower())
        if column is not None and (column.generated or column.auto_increment):
            kind = "generated" if column.generated else "AUTO_INCREMENT"
            yield _problem(
                "mapping-generated",
                f"{mapping}: {column.name} is {kind}: a BEFORE trigger sees no value of it and may set none",
                "plain columns in a mapping",
                "map the columns that it is computed from",
            )


def _sources(mapping: Mapping, transform: Transform | None, foreign: set[str], columns: Columns) -> Iterator[Problem]:
    if not isinstance(transform, Expression):
        return
    try:
        read = parse(transform.sql, columns, str(mapping)).columns
    except RunbookError as error:
        yield _problem("mapping-expression", error.seen, error.expected, error.next)
        return
    for column in read:
        if column.name.lower() in foreign:
            yield _chain(mapping, f"{transform.sql!r} reads {column.name}, which the mirror sets itself")
        elif column.generated or column.auto_increment:
            yield _problem(
                "mapping-generated",
                f"{mapping}: {transform.sql!r} reads {column.name}, of which a BEFORE trigger sees no value",
                "plain columns in an expression",
                "write the computation of the column itself",
            )


def _chain(mapping: Mapping, seen: str) -> Problem:
    return _problem(
        "mapping-chain",
        f"{mapping}: {seen}",
        "each direction reads its own side: forward old columns, backward new ones",
        "write the whole way from the old column into one mapping",
    )


def _partners(mapping: Mapping, contract: Contract, shape: Shape, columns: Columns) -> Iterator[Problem]:
    """A column that the mirror sets, and what hangs on it."""
    set_by_mirror = [(mapping.new, mapping.old)] + ([(mapping.old, mapping.new)] if mapping.is_pair else [])
    for partner, source in set_by_mirror:
        if partner is not None:
            yield from _constraints(mapping, partner, source, contract, shape)
    if mapping.is_pair and mapping.old is not None:
        if mapping.old.lower() in (k.lower() for k in shape.key):
            yield _problem(
                "pair-in-key",
                f"{mapping}: {mapping.old} is part of the key that the table is walked by",
                "a key that no mapping changes",
                "derive the new column, without backward",
            )
        yield from _defaults(mapping, columns)


def _constraints(
    mapping: Mapping, partner: str, source: str | None, contract: Contract, shape: Shape
) -> Iterator[Problem]:
    renamed = _renaming(contract, partner)
    copies = isinstance(mapping.forward, Copy) and source is not None
    uniques = {i.name: tuple(c.lower() for c in i.columns) for i in (*shape.indexes, *contract.indexes) if i.unique}
    for name, parts in uniques.items():
        twins = [sorted(renamed(c) for c in parts) == sorted(other) for other in uniques.values()]
        if partner.lower() in parts and not (copies and any(twins)):
            yield _constrained(mapping, partner, f"the unique key {name}", "1062, or a row that REPLACE deletes")
    keys = {k.name: k for k in (*shape.foreign_keys, *contract.foreign_keys)}
    ways = {(tuple(c.lower() for c in k.columns), k.references, k.referenced_columns) for k in keys.values()}
    for key in keys.values():
        parts = tuple(c.lower() for c in key.columns)
        twin = (tuple(renamed(c) for c in parts), key.references, key.referenced_columns)
        if partner.lower() in parts and not (copies and twin in ways):
            yield _constrained(mapping, partner, f"the foreign key {key.name}", "1452")
    clauses = {_with_names(clause, str) for _, clause in shape.checks}
    for name, clause in shape.checks:
        if partner.lower() in _names(clause) and not (copies and _with_names(clause, renamed) in clauses):
            yield _constrained(mapping, partner, f"the check {name}", "3819")


def _constrained(mapping: Mapping, partner: str, what: str, error: str) -> Problem:
    return _problem(
        "partner-constrained",
        f"{mapping}: {partner} is in {what}, which its source is not in",
        f"a partner that cannot make a statement of the application fail ({error})",
        f"take {what} out of this contract, or derive nothing into {partner}",
    )


def _renaming(contract: Contract, partner: str) -> Callable[[str], str]:
    """What turns a constraint on the partner into the one that its source would have."""
    pairs: dict[str, str] = {}
    for mapping in contract.pairs:
        if mapping.old is not None:
            pairs[mapping.new.lower()] = mapping.old.lower()
            pairs[mapping.old.lower()] = mapping.new.lower()
    return lambda column: pairs.get(column, column) if column == partner.lower() else column


def _names(clause: str) -> set[str]:
    try:
        return {t.identifier for t in tokenise(clause) if t.kind in (TokenKind.NAME, TokenKind.QUOTED)}
    except ValueError:
        return set()


def _with_names(clause: str, renamed: Callable[[str], str]) -> str:
    """The clause with each name as ``renamed`` has it, spelled so that two equal ones are equal texts."""
    tokens = [t for t in tokenise(clause) if t.kind is not TokenKind.SPACE]
    names = (TokenKind.NAME, TokenKind.QUOTED)
    return " ".join(f"`{renamed(t.identifier)}`" if t.kind in names else t.text for t in tokens)


def cascade_problems(contract: Contract, shape: Shape, unseen: str) -> Sequence[Problem]:
    """Sources of a mirror that a foreign key's cascade can change, where ``unseen`` says why no mirror sees that: what
    is mirrored from them goes stale. A derived column that is filled once is no mirror."""
    columns = columns_after_ddl(contract, shape)
    return [p for mapping in contract.mappings for p in _cascades(mapping, contract, shape, columns, unseen)]


def _cascades(mapping: Mapping, contract: Contract, shape: Shape, columns: Columns, unseen: str) -> Iterator[Problem]:
    if not (mapping.is_pair or mapping.follows):
        return
    watched = {(mapping.old or "").lower()}
    for transform in (mapping.forward, mapping.backward):
        if isinstance(transform, Expression):
            watched |= _names(transform.sql) & set(columns)
    for key in {k.name: k for k in (*shape.foreign_keys, *contract.foreign_keys)}.values():
        changes = key.on_delete.upper() in _DELETE_CHANGES or key.on_update.upper() in _UPDATE_CHANGES
        hit = [c for c in key.columns if c.lower() in watched]
        if hit and changes:
            yield _problem(
                "cascade-unseen",
                f"{mapping}: the foreign key {key.name} can change {hit[0]} by a cascade that no mirror sees: {unseen}",
                "source columns that only statements on this table change; or triggers, on a server that fires them for"
                " cascades in every session (enable_cascade_triggers ON, innodb_native_foreign_keys OFF: from 9.7 on)",
                "SET PERSIST enable_cascade_triggers = ON where the server has it, once you know what other triggers it"
                " wakes, and let every client connect anew; or waive cascade-unseen with a reason: such rows are drift"
                " until rollout verify --repair fills them",
            )


def _defaults(mapping: Mapping, columns: Columns) -> Iterator[Problem]:
    """A row inserted without either column must hold, and a new default must survive the way back and there again."""
    old, new = columns.get((mapping.old or "").lower()), columns.get(mapping.new.lower())
    if old is None or new is None or mapping.backward is None:
        return
    theirs, ours = _default(old), _default(new)
    if ours is _UNKNOWN or theirs is _UNKNOWN:
        return
    back = _apply(mapping.backward, ours)
    if back is not _UNKNOWN and _differ(again := _apply(mapping.forward, back), ours):
        yield _default_problem(mapping, new, f"goes back to {_shown(back)} and comes again as {_shown(again)}")
    if ours is None or (theirs is None and not old.null):
        return
    there = _apply(mapping.forward, theirs)
    if _differ(there, ours) and _differ(back, theirs):
        yield _default_problem(mapping, new, f"does not correspond to {old.name}'s default {_shown(theirs)}")


def _default_problem(mapping: Mapping, new: Column, seen: str) -> Problem:
    shown = "NULL" if new.default is None else repr(new.default.text)
    return _problem(
        "default-unlike",
        f"{mapping}: the default {shown} of {new.name} {seen}",
        "a default of the new column that is NULL or what the old column's default becomes",
        f"give {new.name} no default, or the matching one",
    )


def _default(column: Column) -> object:
    """The default as text, None for NULL; ``_UNKNOWN`` for an expression."""
    if column.default is None or column.default.text.upper() == "NULL":
        return None
    return _UNKNOWN if column.default.is_expression else column.default.text


def _apply(transform: Transform, value: object) -> object:
    """What a value map or a copy gives; ``_UNKNOWN`` where only the server can say, or the map does not know."""
    match transform:
        case Copy():
            return value
        case ValueMap():
            for key, result in transform.values:
                if key == value:
                    return result
            return value if transform.unmapped is Unmapped.KEEP else _UNKNOWN
        case Expression():
            return _UNKNOWN


def _differ(one: object, other: object) -> bool:
    """Whether two values differ for sure; texts that spell one number do not."""
    if one is _UNKNOWN or other is _UNKNOWN or one == other:
        return False
    try:
        return not (isinstance(one, str) and isinstance(other, str) and Decimal(one) == Decimal(other))
    except InvalidOperation:
        return True


def _shown(value: object) -> str:
    return "NULL" if value is None else "something else" if value is _UNKNOWN else repr(value)
