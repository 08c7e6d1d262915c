"""The digest of a live table that a plan's fingerprint holds: everything that changes what a plan would say, and
nothing that changes by itself (statistics, comments, our own triggers). Pure."""

from __future__ import annotations

import hashlib
import json

from msgspec import to_builtins

from orchestrator.model.facts import Shape, Trigger

OUR_TRIGGERS = "_rollout_"


def shape_digest(shape: Shape) -> str:
    """Hex sha256 of the normal form: shape, keys and the application's triggers; no comments, statistics, or order of
    indexes, and none of our own triggers, so that installing the mirror does not make a plan stale. Nor who refers to
    the table: an account sees that of the schemas that it may read, and no statement of a plan depends on it."""
    normal = {
        "table": str(shape.table),
        "kind": shape.kind,
        "engine": shape.engine,
        "collation": shape.collation,
        "row_format": shape.row_format,
        "partitioned": shape.partitioned,
        "columns": [c.substance() for c in shape.columns],
        "indexes": sorted((i.substance() for i in shape.indexes), key=lambda i: str(i["name"])),
        "foreign_keys": sorted((f.substance() for f in shape.foreign_keys), key=lambda f: str(f["name"])),
        "checks": sorted(shape.checks),
        "triggers": [t for t in shape.triggers if not is_ours(t)],
        "key": shape.key,
    }
    return hashlib.sha256(json.dumps(normal, sort_keys=True, default=to_builtins).encode()).hexdigest()


def is_ours(trigger: Trigger) -> bool:
    """Whether a rollout installed the trigger: its name says so."""
    return trigger.name.startswith(OUR_TRIGGERS)
