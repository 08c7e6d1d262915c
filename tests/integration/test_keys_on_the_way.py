"""Keys while a rollout is on its way: how they are told where they are bytes, and rows whose key changes meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from io import StringIO
from pathlib import Path

import pytest

from orchestrator.app.watch import open_watch
from orchestrator.app.wiring import App, Surroundings, build
from orchestrator.cli.render_past import history_words, status_words
from orchestrator.engine import Commands
from orchestrator.errors import PhaseFailed
from orchestrator.runbook.load import load
from orchestrator.sandbox.pair import Pair
from orchestrator.telemetry.logs import EventLog
from tests.support.meanwhile import ROW_BY_ROW, Somebody, beside
from tests.support.small import Small, small
from tests.support.state import settings_of
from tests.support.within import Silent

BINARY = "id BINARY(16) NOT NULL PRIMARY KEY, status VARCHAR(20) NOT NULL, note VARCHAR(50)"
KEYS = ("27275c5c250a0d1a2727272727272700", "27275c5c250a0d1a2727272727272720", "f09f9880f09f9880fffefdfcfbfaf9f8")
SMILES = "(0x00000000000000000000000000000000, 'done', NULL), (0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF, 'new', NULL)"
FIVE = ", ".join(f"({id_}, 'done', NULL)" for id_ in range(1, 6))
BY_FLAG = ("shadow_write: {soak: 200ms}", "shadow_write: {driver: flag, soak: 500ms}")


def go(commands: Commands, phases: Sequence[str]) -> None:
    for phase in phases:
        commands.next(phase)


def test_b03_log_history_status_and_errors_tell_a_binary_key_as_hex(pair: Pair, tmp_path: Path) -> None:
    """B03: two keys differ only in a last 00 and 20, one holds quotes and a backslash, one is UTF-8 by half."""
    rows = ", ".join(f"(0x{key}, 'done', NULL)" for key in KEYS)
    log = StringIO()
    with small(pair, tmp_path, BINARY, f"{SMILES}, {rows}") as here:
        around = Surroundings(Silent(), (EventLog(log),))
        with closing(build(load(here.terminal.runbook), settings_of(pair.primary), around)) as app:
            go(app.commands, ("ddl", "backfill", "shadow-write"))
            wrong = " OR ".join(f"id = 0x{key}" for key in KEYS)
            here.sql(f"UPDATE {here.table} SET state = 'nobody knows it' WHERE {wrong}")
            with pytest.raises(PhaseFailed) as failed:
                app.commands.next("read-switch")
            history = [json.dumps(history_words(e)) for e in app.parts.store.history(here.name)]
            with closing(open_watch(app.parts.runbook, app.site.settings)) as watch:
                status = json.dumps(status_words(watch.status()))
    assert f"(key {', '.join(KEYS)})" in failed.value.seen
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert ["stale", "status ↔ state", "3", *KEYS] in [row for line in lines for row in line["evidence"]]
    assert any(f"(key {', '.join(KEYS)})" in line["note"] for line in lines)
    assert sum(all(key in text for key in KEYS) for text in history) == 1
    for text in (log.getvalue(), *history, status, failed.value.seen):
        assert not any(sign in text for sign in ("b'", "\\x", "\ufffd", "\0", "😀")), text


def moved(here: Small, was: int, is_: int) -> None:
    here.sql(f"UPDATE {here.table} SET id = {is_} WHERE id = {was}")


def left(app: App) -> tuple[tuple[str, ...], ...]:
    """What ``rollout verify`` finds."""
    return app.compare().evidence


def test_b11_a_row_whose_key_changes_while_the_mirror_stands_is_right_at_once(pair: Pair, tmp_path: Path) -> None:
    """B11, triggers: before they stand the row is missing under its new key; while the sweep runs it is right."""
    with small(pair, tmp_path, rows=FIVE) as here:
        here.write(ROW_BY_ROW)
        behind = Somebody(lambda: moved(here, 5, -2), during="fill:backfill", at_beat=2)
        with beside(here, behind) as (app, commands):
            go(commands, ("ddl", "backfill"))
            assert (behind.acted, left(app)) == (True, (("missing", "status ↔ state", "1", "-2"),))
        again = Somebody(lambda: moved(here, 4, -3), before="compare:drift")
        with beside(here, again) as (app, commands):
            commands.next("shadow-write")
            assert left(app) == ()
            moved(here, 3, -4)
            here.sql(f"UPDATE {here.table} SET id = -5, status = 'new' WHERE id = 2")
            assert left(app) == ()
        assert here.sql(f"SELECT id, state FROM {here.table} ORDER BY id")[0] == (-5, "pending")


def test_b11_without_triggers_verify_finds_the_row_by_its_new_key_and_the_repair_mends_it(
    pair: Pair, tmp_path: Path
) -> None:
    """B11, the applications' own double writes: the sweep finds what moved in the backfill, verify what comes after."""
    with small(pair, tmp_path, rows=FIVE) as here:
        here.write(ROW_BY_ROW, BY_FLAG)
        behind = Somebody(lambda: moved(here, 5, -2), during="fill:backfill", at_beat=2)
        with beside(here, behind) as (app, commands):
            go(commands, ("ddl", "backfill"))
            assert (behind.acted, left(app)) == (True, (("missing", "status ↔ state", "1", "-2"),))
            commands.next("shadow-write")
            assert left(app) == ()
            here.sql(f"UPDATE {here.table} SET id = -5, status = 'new' WHERE id = 2")
            assert left(app) == (("stale", "status ↔ state", "1", "-5"),)
            commands.repair()
            assert left(app) == ()
        assert here.sql(f"SELECT id, state FROM {here.table} ORDER BY id")[0] == (-5, "pending")
