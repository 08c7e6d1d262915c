"""What tests of gh-ost need: a table without foreign keys, the step, a driver with the program that is had here."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl.copying import CopyDriver
from orchestrator.drivers.ddl.ghost.binary import Binary, find
from orchestrator.drivers.ddl.ghost.tool import GhostTool
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import Contract, TableName
from orchestrator.model.outcome import GO, Progress, Signal, SignalKind
from orchestrator.model.runbook import GhostSettings, Limits, PhaseSettings, Runbook
from orchestrator.model.step import GhostAlter
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.site import Site
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import cache_folder
from orchestrator.sandbox.server import Server
from orchestrator.sandbox.template import ROOT
from tests.support.ddl import column
from tests.support.servers import connect, script, sql
from tests.support.state import settings_of

BUILT = cache_folder() / "gh-ost" / "gh-ost"
PLAYER = Path(__file__).with_name("ghost_player.py")
NAME = "orders"


def real() -> Binary | None:
    """The gh-ost that is to be had here, None when there is none."""
    try:
        return find(BUILT)
    except ConfigurationError:
        return None


needs_real = pytest.mark.skipif(real() is None, reason="no gh-ost to be had here (make gh-ost says why)")


def player(folder: Path) -> Path:
    """A program that is called as gh-ost is and plays it."""
    path = folder / "gh-ost-player"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {PLAYER} "$@"\n')
    path.chmod(0o755)
    return path


def orders(server: Server, schema: str, rows: int = 500) -> TableName:
    """``orders``: a key, a counter, a text, and a small number that can only be widened by writing all rows anew."""
    script(
        server,
        f"CREATE TABLE {NAME} (id BIGINT PRIMARY KEY AUTO_INCREMENT, a INT NOT NULL DEFAULT 0,"
        " note VARCHAR(200) NOT NULL DEFAULT '', small SMALLINT NOT NULL DEFAULT 0, KEY orders_a (a))",
        schema,
    )
    with closing(connect(server, ROOT, schema)) as session, session.cursor() as cursor:
        for start in range(1, rows + 1, 2000):
            values = ",".join(f"({i},{i},'{i * 7}')" for i in range(start, min(start + 2000, rows + 1)))
            cursor.execute(f"INSERT INTO {NAME} (id, a, note) VALUES {values}")
    return TableName(schema, NAME)


def wider(table: TableName) -> GhostAlter:
    """A change that the server can only make by copying: SMALLINT becomes BIGINT; and a column, and an index."""
    before = column("small", "smallint", "0", null=False)
    return GhostAlter(
        table=table,
        columns=(column("state", "varchar(20)"),),
        changes=((before, replace(before, type=column("x", "bigint").type)),),
        family=(table,),
        why="smallint to bigint copies the table",
    )


def site_for(server: Server, table: TableName, id: str = "ghost-test", **more: object) -> Site:
    """``more``: fields of Limits, or of GhostSettings."""
    limits = {k: v for k, v in more.items() if k in Limits.__slots__}
    ghost = {k: v for k, v in more.items() if k in GhostSettings.__slots__}
    runbook = Runbook(
        id,
        Contract(table, ()),
        "digest",
        "",
        "test.yaml",
        phases=PhaseSettings(gh_ost=GhostSettings(**ghost)),  # type: ignore[arg-type]  # test's own keywords
        limits=Limits(**({"max_wait_s": 30.0} | limits)),  # type: ignore[arg-type]  # test's own keywords
    )
    return Site(settings_of(server), runbook, SystemClock())


def driver_for(site: Site, program: Path = BUILT) -> CopyDriver:
    return CopyDriver(site, GhostTool(site.settings, site.clock, program))


def beside(server: Server, table: TableName) -> dict[str, str]:
    """The tables of the schema besides the real one, with their comments."""
    rows = sql(
        server,
        "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = %s AND TABLE_NAME <> %s",
        (table.schema, table.name),
    )
    return {str(name): str(comment) for name, comment in rows}


def files() -> list[Path]:
    """Everything that runs of gh-ost have laid down here for this user."""
    return sorted((Path(tempfile.gettempdir()) / f"rollout-gh-ost-{os.geteuid()}").rglob("*"))


def type_of(server: Server, table: TableName, name: str) -> str:
    rows = sql(
        server,
        "SELECT COLUMN_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND COLUMN_NAME = %s",
        (table.schema, table.name, name),
    )
    return str(rows[0][0]) if rows else ""


@contextmanager
def own_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files that nobody else uses, with a name that leaves room for a socket's."""
    folder = Path(tempfile.mkdtemp(prefix="gh-", dir=tempfile.gettempdir()))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _running() -> list[tuple[int, bytes]]:
    """Processes that were called with a path of this folder for temporary files, and what they were called with."""
    mark = os.fsencode(tempfile.gettempdir()) + b"/rollout-gh-ost"
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                called = (entry / "cmdline").read_bytes()
                if mark in called:
                    found.append((int(entry.name), called))
    return found


def children() -> list[int]:
    return [pid for pid, _ in _running()]


def pid_of_run() -> int | None:
    return next((pid for pid, called in _running() if b"--execute" in called), None)


def as_before(pair: Pair, table: TableName) -> None:
    """The table is the old one, and nothing of a run is left: no table, no file, no process."""
    assert type_of(pair.primary, table, "small") == "smallint"
    assert type_of(pair.primary, table, "state") == ""
    assert beside(pair.primary, table) == {}
    assert files() == []
    assert children() == []


def done(pair: Pair, table: TableName, rows: int = 500) -> None:
    """The table is the new one with all its rows, and only the old one is left beside it."""
    assert type_of(pair.primary, table, "small") == "bigint"
    assert type_of(pair.primary, table, "state") == "varchar(20)"
    assert sql(pair.primary, f"SELECT COUNT(*) FROM {table}") == [(rows,)]
    assert set(beside(pair.primary, table)) == {"_orders_del"}
    assert files() == []
    assert children() == []


def once(kind: SignalKind, when: Callable[[Progress], bool], reason: str = "test") -> Callable[[Progress], Signal]:
    return lambda progress: Signal(kind, reason) if when(progress) else GO


def ready(progress: Progress) -> bool:
    return "cut-over is ours" in progress.note or "postponing" in progress.note
