"""Rules on what is added: expand only, and nothing that the server refuses or copies a table for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from orchestrator.model.contract import Column, Contract, Index, IndexPart
from orchestrator.model.types import Family
from orchestrator.mysql.wording import words_of
from orchestrator.runbook.fit import literal_problem
from orchestrator.runbook.rules import Breach
from orchestrator.runbook.tree import Path

_NO_DEFAULT = frozenset({Family.JSON, Family.SPATIAL})
# Functions whose value hangs on the moment, the session or chance: the server refuses them as defaults (1674), or every
# row gets another value on each server.
_NOT_DETERMINISTIC = frozenset(
    re.findall(
        r"\w+",
        """uuid uuid_short rand random_bytes user current_user session_user system_user connection_id database schema
        sysdate found_rows row_count last_insert_id load_file sleep get_lock release_lock version""",
    )
)
_WIDER = frozenset({"varchar", "varbinary", "enum", "set"})
_BYTES = {"ascii": 1, "latin1": 1, "binary": 1, "ucs2": 2, "utf8mb3": 3, "utf8": 3}
_STORED_BYTES = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8, "date": 3, "datetime": 8}
MAX_INDEX_BYTES = 3072


def columns(contract: Contract) -> Iterator[Breach]:
    """New columns and changes."""
    for i, column in enumerate(contract.columns):
        path: Path = ("contract", "columns", i)
        if not column.null and column.default is None and column.generated is None:
            yield Breach("new-column-not-null", path, f"{column.name} is NOT NULL and has no default")
        yield from _default(column, path)
        yield from _characters(column, path)
        yield from _generated(column, contract, path)
    for i, column in enumerate(contract.changes):
        path = ("contract", "changes", i)
        if column.generated is not None or column.after:
            yield Breach("change-not-widening", path, f"{column.name} shall be moved or generated")
        # With allow_rebuild the live column decides whether the change is a widening; the file alone cannot.
        if column.type.base not in _WIDER and not contract.allow_rebuild:
            yield Breach("change-not-widening", path, f"{column.name} shall become {column.type}")
        yield from _default(column, path)
        yield from _characters(column, path)


def _default(column: Column, path: Path) -> Iterator[Breach]:
    default = column.default
    if default is None:
        return
    if default.is_expression:
        if not default.text.startswith("CURRENT_TIMESTAMP"):
            yield from _computed_default(column, default.text, path)
        elif column.type.base not in ("datetime", "timestamp"):
            yield Breach("default-unfit", (*path, "default"), f"{default.text} as the default of {column.type}")
        elif default.text != "CURRENT_TIMESTAMP" + (f"({column.type.length})" if column.type.length else ""):
            seen = f"{default.text} as the default of {column.type}: the digits differ"
            yield Breach("default-unfit", (*path, "default"), seen)
    elif column.type.family in _NO_DEFAULT or column.type.byte_limit is not None:
        yield Breach("default-not-allowed", (*path, "default"), f"{column.name} ({column.type}) has a default")
    elif problem := literal_problem(default.text, column.type, column.charset):
        yield Breach("default-unfit", (*path, "default"), f"the default {default.text!r} of {column.name} {problem}")


def _computed_default(column: Column, sql: str, path: Path) -> Iterator[Breach]:
    if unsafe := sorted(_NOT_DETERMINISTIC & {t.text.lower() for t in words_of(sql)}):
        seen = f"{column.name} has the default {sql}: {unsafe[0].upper()}() gives another value each time"
        yield Breach("default-unsafe", (*path, "default"), seen)


def _generated(column: Column, contract: Contract, path: Path) -> Iterator[Breach]:
    """A generated column, and an expression as the default of a mapped one."""
    mapped = next((m for m in contract.mappings if m.new.lower() == column.name.lower()), None)
    if column.generated is None:
        default = column.default
        if column.stored:
            yield Breach("generated-column", (*path, "stored"), f"{column.name} is stored and has no generated: …")
        if mapped and default and default.is_expression and not default.text.startswith("CURRENT_TIMESTAMP"):
            yield Breach("default-expression", (*path, "default"), f"{column.name} has the default {default.text}")
        return
    if column.default is not None:
        yield Breach("generated-column", (*path, "default"), f"{column.name} is generated and has a default")
    if mapped is not None:
        yield Breach("generated-mapped", path, f"{column.name} of the mapping {mapped} is generated")


def _characters(column: Column, path: Path) -> Iterator[Breach]:
    charset, collation = column.charset, column.collation
    if charset is None and collation is None:
        return
    if column.type.family not in (Family.TEXT, Family.ENUM, Family.SET):
        yield Breach("charset-of-column", path, f"{column.name} ({column.type}) has a character set or collation")
    elif charset and collation and collation != charset and not collation.startswith(f"{charset}_"):
        yield Breach("charset-of-column", path, f"{column.name}: {collation} is no collation of {charset}")


def indexes(contract: Contract) -> Iterator[Breach]:
    """New indexes; parts on existing columns are left to the look at the live table."""
    added = {c.name.lower(): c for c in contract.columns}
    shapes: dict[tuple[object, ...], str] = {}
    for i, index in enumerate(contract.indexes):
        path: Path = ("contract", "indexes", i)
        for part in index.parts:
            if (column := added.get(part.column.lower())) and index.kind != "FULLTEXT":
                yield from _part(index, part, column, path)
        total = sum(_part_bytes(p, added[p.column.lower()]) for p in index.parts if p.column.lower() in added)
        if total > MAX_INDEX_BYTES and index.kind != "FULLTEXT":
            yield Breach("index-too-long", path, f"{index.name} takes {total} bytes in its new columns alone")
        shape = tuple((p.expression or p.column.lower(), p.prefix, p.descending) for p in index.parts)
        if shape in shapes:
            yield Breach("index-twice", path, f"{index.name} has the parts of {shapes[shape]}")
        shapes.setdefault(shape, index.name)


def _part(index: Index, part: IndexPart, column: Column, path: Path) -> Iterator[Breach]:
    kind = column.type
    if kind.family in (Family.JSON, Family.SPATIAL):
        yield Breach("index-part", path, f"{index.name}: {column.name} is {kind}, which no ordinary index can hold")
    elif kind.byte_limit is not None and part.prefix is None:
        yield Breach("index-part", path, f"{index.name}: {column.name} is {kind} and has no prefix")
    elif part.prefix is not None and kind.family not in (Family.TEXT, Family.BINARY):
        yield Breach("index-part", path, f"{index.name}: {column.name} is {kind} and has a prefix")
    elif part.prefix is not None and kind.length is not None and part.prefix > kind.length:
        yield Breach("index-part", path, f"{index.name}: the prefix {part.prefix} is longer than {column.name}")


def _part_bytes(part: IndexPart, column: Column) -> int:
    kind = column.type
    if kind.family is Family.TEXT:
        return (part.prefix or kind.length or 0) * _BYTES.get((column.charset or "utf8mb4").lower(), 4)
    if kind.family is Family.BINARY:
        return part.prefix or kind.length or 0
    return _STORED_BYTES.get(kind.base, 8)


def foreign_keys(contract: Contract) -> Iterator[Breach]:
    """New foreign keys; parents and existing columns are left to the look at the live tables."""
    added = {c.name.lower(): c for c in contract.columns}
    for i, key in enumerate(contract.foreign_keys):
        path: Path = ("contract", "foreign_keys", i)
        names = [c.lower() for c in key.columns]
        served = any([p.lower() for p in x.columns[: len(names)]] == names for x in contract.indexes)
        if any(n in added for n in names) and not served:
            yield Breach("foreign-key-index", path, f"no index of the contract begins with {', '.join(key.columns)}")
        for name in names:
            if name in added and not added[name].null and "SET NULL" in (key.on_delete, key.on_update):
                yield Breach("set-null-not-null", path, f"{key.name} sets {name} to NULL, which is NOT NULL")
        changes = [r for r in (key.on_delete, key.on_update) if r in ("CASCADE", "SET NULL")]
        if key.references == contract.table and changes:
            yield Breach("self-reference-cascade", path, f"{key.name} refers to its own table with {changes[0]}")


def partners(contract: Contract) -> Iterator[Breach]:
    """Columns that the mirror writes, inside constraints that could then fail."""
    written = {m.new.lower(): m for m in contract.mappings}
    written |= {m.old.lower(): m for m in contract.pairs if m.old}
    for i, index in enumerate(contract.indexes):
        for name in index.columns if index.unique else ():
            if mapping := written.get(name.lower()):
                seen = f"{name} of the mapping {mapping} is in the unique index {index.name}"
                yield Breach("partner-constrained", ("contract", "indexes", i), seen)
    for i, key in enumerate(contract.foreign_keys):
        for name in key.columns:
            if mapping := written.get(name.lower()):
                seen = f"{name} of the mapping {mapping} is in the foreign key {key.name}"
                yield Breach("partner-constrained", ("contract", "foreign_keys", i), seen)
