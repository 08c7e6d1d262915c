"""Status values: what a value map knows, against the values that live, and those that an ENUM or a CHECK names."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from orchestrator.contract.difference import Difference, Kind
from orchestrator.contract.target import Target
from orchestrator.model.contract import Contract, Mapping, Match, Transform, Unmapped, ValueMap
from orchestrator.model.facts import Shape
from orchestrator.model.types import Family
from orchestrator.mysql.tokens import Token, TokenKind, string_value, tokenise


class Known(Struct, frozen=True):
    """The values of one column that the contract knows; ``any`` when the mapping keeps what it does not name."""

    column: str
    values: frozenset[str]
    null: bool
    any: bool
    match: Match

    def has(self, value: str) -> bool:
        if self.match is Match.COLLATION:
            return value.casefold() in {v.casefold() for v in self.values}
        return value in self.values


def known_values(contract: Contract) -> tuple[Known, ...]:
    """Every column that a value map speaks of, on either side."""
    return tuple(k for m in contract.mappings for k in _known(contract, m))


def _known(contract: Contract, mapping: Mapping) -> Iterator[Known]:
    forward, backward = mapping.forward, mapping.backward
    if isinstance(forward, ValueMap) and mapping.old is not None:
        values = _keys(forward) | _results(backward)
        named = _texts(values)
        yield Known(mapping.old, named, None in values, forward.unmapped is Unmapped.KEEP, forward.match)
    if isinstance(forward, ValueMap) or isinstance(backward, ValueMap):
        kept = [t for t in (forward, backward) if isinstance(t, ValueMap) and t.unmapped is Unmapped.KEEP]
        open_ended = bool(kept) or not isinstance(forward, ValueMap)
        default = next((c.default for c in contract.columns if c.name == mapping.new), None)
        values = _results(forward) | _keys(backward)
        named = _texts(values | ({default.text} if default is not None and not default.is_expression else set()))
        yield Known(mapping.new, named, True, open_ended, Match.EXACT)


def _keys(transform: Transform | None) -> set[str | None]:
    return {k for k, _ in transform.values} if isinstance(transform, ValueMap) else set()


def _results(transform: Transform | None) -> set[str | None]:
    return {v for _, v in transform.values} if isinstance(transform, ValueMap) else set()


def _texts(values: set[str | None]) -> frozenset[str]:
    return frozenset(v for v in values if v is not None)


def status_differences(contract: Contract, target: Target) -> Iterator[Difference]:
    """Values that the target names or holds and no mapping knows, and those that a mapping needs and it forbids."""
    for known in known_values(contract):
        column = target.shape.column(known.column)
        if column is None:
            continue
        if column.type.family in (Family.ENUM, Family.SET):
            yield from _declared(
                known, f"the {column.type.family.value.upper()}", frozenset(column.type.labels), target
            )
        for name, clause in target.shape.checks:
            if allowed := allowed_by(clause, known.column, target.shape):
                yield from _declared(known, f"the CHECK {name}", allowed, target)
        yield from _living(known, target)


def _declared(known: Known, where: str, values: frozenset[str], target: Target) -> Iterator[Difference]:
    for value in sorted(values):
        if not known.any and not known.has(value):
            told = f"{where} of {known.column} names {value!r}, which no mapping knows"
            yield _about(known, Kind.CONTRACT_LACKS, told, target)
    for value in sorted(known.values):
        if value not in values and not (known.match is Match.COLLATION and value.casefold() in _folded(values)):
            told = f"{where} of {known.column} does not allow {value!r}, which the mapping needs"
            yield _about(known, Kind.TARGET_LACKS, told, target)


def _about(known: Known, kind: Kind, told: str, target: Target) -> Difference:
    return Difference(kind, "status", known.column, told, target.line("column", known.column))


def _folded(values: frozenset[str]) -> set[str]:
    return {v.casefold() for v in values}


def _living(known: Known, target: Target) -> Iterator[Difference]:
    for live in target.values:
        if live.column.lower() != known.column.lower() or known.any:
            continue
        if live.value is None:
            if not known.null:
                told = f"{live.rows} rows hold NULL in {known.column}, which no mapping knows"
                yield _about(known, Kind.CONTRACT_LACKS, told, target)
        elif not known.has(live.value):
            told = f"{live.rows} rows hold {live.value!r} in {known.column}, which no mapping knows"
            yield _about(known, Kind.CONTRACT_LACKS, told, target)


def allowed_by(clause: str, column: str, shape: Shape) -> frozenset[str]:
    """The texts that a CHECK compares the column with by ``=`` or ``IN``; empty when it is about anything else too."""
    try:
        tokens = [t for t in tokenise(clause) if t.kind not in _SILENT]
    except ValueError:
        return frozenset()
    named = {t.identifier for t in tokens if t.kind in (TokenKind.NAME, TokenKind.QUOTED)}
    others = {c.name.lower() for c in shape.columns} - {column.lower()}
    words = named - _WORDS - {column.lower()}
    if column.lower() not in named or named & others or words or any(t.text in _INEQUALITIES for t in tokens):
        return frozenset()
    return frozenset(_value(t) for t in tokens if t.kind is TokenKind.STRING)


_SILENT = (TokenKind.SPACE, TokenKind.COMMENT, TokenKind.INTRODUCER)
_WORDS = frozenset({"in", "or", "is", "null"})
_INEQUALITIES = frozenset({"<", ">", "<=", ">=", "<>", "!="})


def _value(token: Token) -> str:
    return string_value(token.text) if token.text[0] in "'\"" else token.text
