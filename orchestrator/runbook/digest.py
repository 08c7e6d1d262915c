"""The contract's canonical form and its digest.

Covered: table, contract, mappings, invariants, applications. Not covered: phases, checks, gates, waivers, and the
words that are for people (writer, retire, serves, allow_rebuild). The order of keys, indexes and mappings and the
spelling of types and defaults make no difference; the order of columns does, because it is the physical order.
"""

from __future__ import annotations

from orchestrator.model.contract import (
    Before,
    Column,
    Contract,
    Copy,
    Expression,
    ForeignKey,
    Index,
    IndexPart,
    Mapping,
    Transform,
    ValueMap,
)
from orchestrator.runbook.sealed import body_digest


def digest(contract: Contract) -> str:
    """Hex sha256 of the canonical form."""
    return body_digest(canonical(contract))


def canonical(contract: Contract) -> dict[str, object]:
    """The contract as plain values; two contracts that mean the same are equal here. What is not written is left out,
    so that a newer version, which knows more keys, comes to the same digest."""
    checks = {"checks": {c.name: {"sql": c.sql} for c in contract.checks}} if contract.checks else {}
    renames = {r.old: {"new": r.new, "way": r.way.value} for r in contract.renames}
    return (
        _before(contract.before)
        | checks
        | ({"renames": renames} if renames else {})
        | {
            "table": {"schema": contract.table.schema, "name": contract.table.name, "key": list(contract.key)},
            "columns": {c.name: _column(c) for c in contract.columns},
            "column order": [c.name for c in contract.columns],
            "changes": {c.name: _column(c) for c in contract.changes},
            "indexes": {i.name: _index(i) for i in contract.indexes},
            "foreign_keys": {f.name: _foreign_key(f) for f in contract.foreign_keys},
            "mappings": {m.new: _mapping(m) for m in contract.mappings},
            "invariants": {i.name: i.sql for i in contract.invariants},
            "applications": {"old": sorted(contract.old_statements), "new": sorted(contract.new_statements)},
        }
    )


def _before(before: Before | None) -> dict[str, object]:
    """Nothing when the runbook does not say what stood before: such contracts keep the digest that they have."""
    if before is None:
        return {}
    stood = {
        "collation": before.collation,
        "columns": {c.name: _column(c) | _standing(c) for c in before.columns},
        "column order": [c.name for c in before.columns],
        "indexes": {i.name: _index(i) for i in before.indexes},
        "foreign_keys": {f.name: _foreign_key(f) for f in before.foreign_keys},
        "children": {f"{t}.{f.name}": _foreign_key(f) for t, f in before.children},
    }
    return {"before": stood}


def _standing(column: Column) -> dict[str, object]:
    return {"on_update": column.on_update, "auto_increment": column.auto_increment}


def _column(column: Column) -> dict[str, object]:
    default = column.default
    return {
        "type": str(column.type),
        "null": column.null,
        "default": "none" if default is None else (default.text if default.is_expression else repr(default.text)),
        "charset": column.charset,
        "collation": column.collation,
        "invisible": column.invisible,
        "comment": column.comment,
        **({"after": column.after} if column.after else {}),
        **({"generated": column.generated, "stored": column.stored} if column.generated is not None else {}),
    }


def _index(index: Index) -> dict[str, object]:
    more = {"kind": index.kind} if index.kind != "BTREE" else {}
    visible = "last" if index.shown_last else index.visible
    return {"columns": [_part(p) for p in index.parts], "unique": index.unique, "visible": visible, **more}


def _part(part: IndexPart) -> str:
    what = f"({part.expression})" if part.expression is not None else part.column
    return what + (f"({part.prefix})" if part.prefix else "") + (" desc" if part.descending else "")


def _foreign_key(key: ForeignKey) -> dict[str, object]:
    return {
        "columns": list(key.columns),
        "references": f"{key.references}({', '.join(key.referenced_columns)})",
        "on_delete": _rule(key.on_delete),
        "on_update": _rule(key.on_update),
    }


def _rule(rule: str) -> str:
    """InnoDB's NO ACTION is RESTRICT."""
    return "RESTRICT" if rule == "NO ACTION" else rule


def _mapping(mapping: Mapping) -> dict[str, object]:
    return {
        "old": mapping.old,
        "forward": _transform(mapping.forward),
        "backward": None if mapping.backward is None else _transform(mapping.backward),
        "on_conflict": mapping.on_conflict.value if mapping.is_pair else None,
        "follows": mapping.follows,
    }


def _transform(transform: Transform) -> object:
    match transform:
        case Copy():
            return "copy"
        case Expression(sql=sql):
            return {"sql": sql}
        case ValueMap():
            named = {
                repr(k) if k is not None else "NULL": repr(v) if v is not None else "NULL" for k, v in transform.values
            }
            return {"values": named, "unmapped": transform.unmapped.value, "match": transform.match.value}
