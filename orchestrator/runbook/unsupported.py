"""Keys that a reader of other tools, or of the plan for this one, may write, and that this version cannot obey.

Each gets a sentence of its own instead of "unknown key", because a key that is silently dropped is a promise broken.
"""

from __future__ import annotations

_INDEX = (
    "kinds of index but btree and fulltext are not supported",
    "columns, unique, visible, kind; a functional part is written in brackets among the columns",
    "build a SPATIAL index outside of a rollout, in a maintenance window",
)
UNSUPPORTED: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("contract", "columns", "*", "auto_increment"): (
        "a new AUTO_INCREMENT column is not supported: it rebuilds the table and blocks writes",
        "a column that is nullable or has a default",
        "leave auto_increment out",
    ),
    ("contract", "columns", "*", "on_update"): (
        "ON UPDATE CURRENT_TIMESTAMP on a new column is not supported: filling other columns would move it",
        "a column that the application writes",
        "leave on_update out and let the application write the moment",
    ),
    ("contract", "indexes", "*", "type"): _INDEX,
    ("contract", "indexes", "*", "expression"): _INDEX,
    ("checks", "disk", "from", "prometheus"): (
        "disk space from Prometheus is not supported",
        "local, {command: …} or {none: reason}",
        "use command: with a program that prints the free bytes",
    ),
    ("phases", "backfill", "canary"): (
        "the canary has no settings",
        "nothing: it runs by itself on large tables",
        "leave it out",
    ),
    ("phases", "shadow_write", "flag"): (
        "the flag by which applications write both columns has no settings",
        "driver: flag",
        "leave it out",
    ),
}
CHOICES: dict[tuple[str, ...], tuple[str, str]] = {
    ("phases", "ddl", "engine"): (
        "other engines are not supported",
        "auto, native and gh-ost are what there is",
    ),
    ("phases", "shadow_write", "driver"): ("other drivers are not supported", "triggers and flag are what there is"),
}


def pattern(path: tuple[str | int, ...]) -> tuple[str, ...]:
    """The path with every position in a list as ``*``."""
    return tuple("*" if isinstance(p, int) else p for p in path)
