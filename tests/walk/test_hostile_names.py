"""A table whose every name and value would end a quote, a comment or a statement goes there, back and to its end."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import PhaseFailed
from orchestrator.model.runbook import Runbook
from orchestrator.mysql.quote import literal, name
from orchestrator.runbook.emit import document
from orchestrator.runbook.load import load
from orchestrator.runbook.tree import read_document
from orchestrator.sandbox.pair import Pair
from tests.support.servers import script, sql, wait_caught_up
from tests.support.within import forward, opened

# What the server itself cannot: list the row versions of a table with other letters than those of ASCII under its name,
# and show a trigger over a column with a backtick.
ODD = "`'\"\\%s;*/ /*! --\n#"
TEXT = f"{ODD} é表 \u200b"
SCHEMA, TABLE, PARENT, CHILD = f"s{ODD}", f" t{ODD}", f"p{ODD}", f"c{ODD}"
MAPPED = f"{ODD[1:]} é表"
KEY, OLD, NEW, OTHER, COPIED = f"k{ODD}", f" o{MAPPED}", f"n{MAPPED}", f"x{TEXT}.y", f"z{MAPPED}(1)"
INDEX, SECOND, CHECK, REFERS, TRIGGER = f"i{TEXT}", f"j{ODD}", f"q{TEXT}", f"f{TEXT}", f"a{ODD}"
OLD_VALUES, NEW_VALUES = (f"new{TEXT}", "a'b\\"), (f"pending{TEXT}", "%s*/")
ROWS = 40


@contextmanager
def hostile(pair: Pair) -> Iterator[str]:
    """That table, with a parent, a child and a trigger of the application; its schema, which is gone afterwards."""
    schema = f"{SCHEMA}{uuid.uuid4().hex[:6]}"
    at = name(schema)
    drop = f"SET SESSION lock_wait_timeout = 30; DROP DATABASE IF EXISTS {at}; DROP DATABASE IF EXISTS _rollout"
    rows = ", ".join(f"({literal(f'{n}{TEXT}')}, {literal(OLD_VALUES[n % 2])}, NULL)" for n in range(ROWS))
    script(pair.primary, f"{drop}; CREATE DATABASE {at} DEFAULT CHARACTER SET utf8mb4")
    try:
        for statement in (
            f"CREATE TABLE {at}.{name(PARENT)} (id INT PRIMARY KEY)",
            f"CREATE TABLE {at}.{name(TABLE)} ({name(KEY)} VARCHAR(60) PRIMARY KEY,"
            f" {name(OLD)} VARCHAR(60) NOT NULL COMMENT {literal(TEXT)}, {name(OTHER)} INT)",
            f"CREATE TABLE {at}.{name(CHILD)} (id INT PRIMARY KEY, r VARCHAR(60), CONSTRAINT {name(CHILD)}"
            f" FOREIGN KEY (r) REFERENCES {name(TABLE)} ({name(KEY)}))",
            f"CREATE TRIGGER {at}.{name(TRIGGER)} BEFORE UPDATE ON {at}.{name(TABLE)} FOR EACH ROW SET @seen = 1",
            f"INSERT INTO {at}.{name(TABLE)} VALUES {rows}",
        ):
            sql(pair.primary, statement)
        wait_caught_up(pair)
        yield schema
    finally:
        script(pair.primary, drop)


def runbook(schema: str, path: Path) -> Runbook:
    both = dict(zip(OLD_VALUES, NEW_VALUES, strict=True))
    tree: dict[str, Any] = {
        "apiVersion": "rollout/v1",
        "name": "hostile",
        "why": TEXT,
        "table": {"schema": schema, "name": TABLE},
        "contract": {
            "columns": [
                {"name": NEW, "type": "varchar(60)", "comment": TEXT, "after": OLD},
                {"name": COPIED, "type": "varchar(60)", "null": False, "default": TEXT},
            ],
            "indexes": [
                {"name": INDEX, "columns": [f"{name(NEW)}(10) desc", name(COPIED)]},
                {"name": SECOND, "columns": [name(OTHER)]},
            ],
            "foreign_keys": [
                {"name": REFERS, "columns": [OTHER], "references": f"{name(PARENT)}(id)"},
            ],
            "checks": [{"name": CHECK, "sql": "1 = 1"}],
        },
        "mappings": [
            {
                "old": OLD,
                "new": NEW,
                "forward": {"values": both},
                "backward": {"values": {new: old for old, new in both.items()}},
            },
            {"new": COPIED, "forward": {"sql": f"CONCAT({name(OLD)}, ')')"}, "follows": True},
        ],
        "invariants": [{"name": "kept", "sql": f"{name(OLD)} <> 'a''*/'"}],
        "phases": {
            "shadow_write": {"soak": "200ms"},
            "read_switch": {"percent": [100], "hold": "200ms", "ttl": "4s", "poll": "200ms", "gates": ["drift"]},
            "verify": {"soak": "200ms"},
            "rollback": {"quiet": "200ms", "ddl": "drop"},
            "finish": {"quiet": "200ms"},
        },
        "checks": {"max_wait": "5s"},
        "waivers": [{"rule": "partner-constrained", "reason": "tried"}],
    }
    path.write_text(document(tree), encoding="utf-8")
    return load(path)


def standing(pair: Pair, schema: str) -> list[tuple[Any, ...]]:
    """Names and definitions of everything in the schema."""
    tables = [row[0] for row in sql(pair.primary, f"SHOW TABLES FROM {name(schema)}")]
    return [(t, sql(pair.primary, f"SHOW CREATE TABLE {name(schema)}.{name(t)}")[0][1]) for t in sorted(tables)]


def test_names_and_values_that_would_end_a_quote_are_altered_and_filled(pair: Pair, tmp_path: Path) -> None:
    with hostile(pair) as schema, opened(runbook(schema, tmp_path / "r.yaml"), pair.primary) as app:
        for phase in ("ddl", "backfill"):
            app.commands.next(phase)
        assert written(pair, schema) == [(value, ROWS // 2) for value in NEW_VALUES]


@pytest.mark.slow  # all stages; the normal run alters and fills
def test_names_and_values_that_would_end_a_quote_go_there_and_back(pair: Pair, tmp_path: Path) -> None:
    with hostile(pair) as schema:
        of = runbook(schema, tmp_path / "r.yaml")
        before = standing(pair, schema)
        with opened(of, pair.primary) as app:
            forward(app.commands)
            assert written(pair, schema) == [(value, ROWS // 2) for value in NEW_VALUES]
            app.commands.rollback("", ())
        assert standing(pair, schema) == before
        assert sql(pair.primary, "SHOW DATABASES LIKE '%scratch%'") == []


@pytest.mark.slow  # one more ddl and backfill
def test_a_mapped_column_with_a_backtick_is_refused_before_a_trigger_stands(pair: Pair, tmp_path: Path) -> None:
    """The server shows the body of a trigger over it garbled, so that nobody could see whether it stands (80)."""
    path = tmp_path / "r.yaml"
    with hostile(pair) as schema:
        runbook(schema, path)
        tree: Any = read_document(path.read_text(encoding="utf-8"), str(path)).value
        tree["contract"]["columns"][1]["name"] = tree["mappings"][1]["new"] = "z`"
        tree["contract"]["indexes"][0]["columns"][1] = name("z`")
        path.write_text(document(tree), encoding="utf-8")
        with opened(load(path), pair.primary) as app:
            app.commands.next("ddl")
            app.commands.next("backfill")
            with pytest.raises(PhaseFailed, match="does not show a trigger"):
                app.commands.next("shadow-write")
        triggers = "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = %s"
        assert sql(pair.primary, triggers, (schema,)) == [(TRIGGER,)]


def written(pair: Pair, schema: str) -> list[tuple[Any, ...]]:
    of = f"{name(schema)}.{name(TABLE)}"
    return sorted(
        sql(pair.primary, f"SELECT {name(NEW)}, COUNT(*) FROM {of} GROUP BY {name(NEW)}"),
        key=lambda row: NEW_VALUES.index(row[0]),
    )
