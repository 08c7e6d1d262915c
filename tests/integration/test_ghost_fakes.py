"""Programs that only look like gh-ost, for what a real one does rarely: lie, hang, shout, leave something running."""

from __future__ import annotations

import gc
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.drivers.ddl.ghost.binary import judge
from orchestrator.drivers.ddl.ghost.place import place
from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import TableName
from orchestrator.model.outcome import Outcome, Result
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import ROOT
from orchestrator.settings import Secret
from tests.support.ddl import Beats
from tests.support.ghost import beside, children, driver_for, files, orders, own_folder, site_for, type_of, wider
from tests.support.servers import sql

HEAD = '#!/bin/sh\n[ "$1" = --version ] && { echo "1.1.10 (git commit: x)"; exit 0; }\n'


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    with own_folder(monkeypatch) as here:
        yield here


def fake(folder: Path, body: str) -> Path:
    path = folder / "fake-gh-ost"
    path.write_text(HEAD + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def run(pair: Pair, schema: str, program: Path) -> Outcome:
    table = orders(pair.primary, schema, 5)
    outcome = driver_for(site_for(pair.primary, table), program).apply(wider(table), Beats())
    assert type_of(pair.primary, table, "small") == "smallint"
    assert files() == []
    assert children() == []
    return outcome


def test_an_exit_code_of_0_without_a_swap_is_no_success(pair: Pair, schema: str, folder: Path) -> None:
    """B76: tool checks that no _gho/_ghc/_del table is left; the table says it, not the exit code."""
    outcome = run(pair, schema, fake(folder, 'echo "# Done"; exit 0\n'))
    assert outcome.result is Result.FAILED, outcome
    assert "ended with 0" in outcome.note
    assert "as it was" in outcome.note


def test_what_a_program_leaves_that_says_done_is_cleared_and_nothing_is_done(
    pair: Pair, schema: str, folder: Path
) -> None:
    """B76: the fake creates _orders_gho and its log, says that it is done and exits with 0."""
    server = pair.primary
    making = folder / "making.py"
    making.write_text(
        f"import pymysql\nhere = pymysql.connect(host='127.0.0.1', port={server.port}, user='root').cursor()\n"
        + "".join(f"here.execute('CREATE TABLE {schema}._orders_{x} (id INT)')\n" for x in ("gho", "ghc"))
        + f"open({str(folder / 'made')!r}, 'w').close()\n"
    )
    outcome = run(pair, schema, fake(folder, f'{sys.executable} {making} && echo "# Done"; exit 0\n'))
    assert (folder / "made").exists()
    assert outcome.result is Result.FAILED, outcome
    assert "ended with 0" in outcome.note
    assert beside(server, TableName(schema, "orders")) == {}


def test_a_program_that_says_done_and_sleeps_is_ended(pair: Pair, schema: str, folder: Path) -> None:
    """B76: own time-out on child exit."""
    outcome = run(pair, schema, fake(folder, 'echo "# Done"; sleep 300\n'))
    assert outcome.result is Result.FAILED, outcome
    assert "said nothing" in outcome.note
    assert outcome.figures["seconds"] < 15


def test_the_last_words_are_told_whatever_bytes_they_are(pair: Pair, schema: str, folder: Path) -> None:
    """B112: the LAST lines of stderr; decode with errors=replace."""
    body = (
        "i=0; while [ $i -lt 3000 ]; do echo noise $i; echo noise $i >&2; i=$((i+1)); done\n"
        "printf '\\377\\376 FATAL cannot lock\\n' >&2; exit 2\n"
    )
    outcome = run(pair, schema, fake(folder, body))
    assert outcome.result is Result.FAILED, outcome
    assert "cannot lock" in outcome.note
    assert "ended with 2" in outcome.note
    assert "noise" not in outcome.note


def test_what_a_killed_run_left_is_taken_over_with_a_line_that_says_so(pair: Pair, schema: str, folder: Path) -> None:
    """B145: names contain the run id; stale ones (pid dead) are taken over with a log line; start again at once."""
    server, table = pair.primary, orders(pair.primary, schema, 5)
    site = site_for(server, table)
    stale = place(site.runbook.id, f"{site.settings.host}:{site.settings.port}", table)
    assert stale.folder != place("another", f"{site.settings.host}:{site.settings.port}", table).folder
    assert site.runbook.id in stale.flag.name
    stale.make()
    dead = subprocess.Popen(["true"])
    dead.wait()
    stale.note_process(dead.pid)
    with closing(socket.socket(socket.AF_UNIX)) as nobody:
        nobody.bind(str(stale.socket))
    sql(server, f"CREATE TABLE {schema}._orders_gho (id INT)")
    beats = Beats()
    outcome = driver_for(site, fake(folder, "sleep 1; exit 0\n")).apply(wider(table), beats)
    assert outcome.result is Result.FAILED, outcome
    taken = f"took over from a run that died: socket and files of the process {dead.pid}, {schema}._orders_gho"
    assert taken in [beat.note for beat in beats.heard]
    assert (files(), children(), beside(server, table)) == ([], [], {})


def test_what_it_started_goes_with_it(pair: Pair, schema: str, folder: Path) -> None:
    """B113: process-group kill; a grandchild that keeps the output open makes nobody wait."""
    outcome = run(pair, schema, fake(folder, f"sleep 300 & echo $! > {folder}/grandchild; exit 0\n"))
    assert outcome.result is Result.FAILED, outcome
    assert outcome.figures["seconds"] < 10
    pid = int((folder / "grandchild").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_descriptors_do_not_grow_with_runs(pair: Pair, schema: str, folder: Path) -> None:
    """B113: descriptors constant."""
    program = fake(folder, "exit 0\n")
    table = orders(pair.primary, schema, 5)
    driver = driver_for(site_for(pair.primary, table), program)
    counts = []
    for _ in range(6):
        driver.apply(wider(table), Beats())
        gc.collect()
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
    assert counts[-1] <= counts[1], counts


def test_the_password_is_in_no_argument_no_file_and_no_word(pair: Pair, schema: str, folder: Path) -> None:
    """B110: password never in argv; grep of all output for the secret finds 0; the environment has it."""
    secret = "S3cret;#'\"$x"
    sql(pair.primary, "CREATE USER 'ghosty'@'127.0.0.1' IDENTIFIED BY %s", (secret,), account=ROOT)
    sql(pair.primary, "GRANT ALL ON *.* TO 'ghosty'@'127.0.0.1'", account=ROOT)
    try:
        body = (
            f"tr '\\0' '\\n' < /proc/$$/cmdline > {folder}/called; cat \"${{1#--conf=}}\" > {folder}/conf\n"
            f'stat -c %a "${{1#--conf=}}" > {folder}/mode; printf %s "$ROLLOUT_GH_OST_PASSWORD" > {folder}/env\n'
            "echo FATAL no >&2; exit 3\n"
        )
        table = orders(pair.primary, schema, 5)
        site = site_for(pair.primary, table)
        site = replace(site, settings=replace(site.settings, user="ghosty", password=Secret(secret)))
        driver = driver_for(site, fake(folder, body))
        outcome = driver.apply(wider(table), Beats())
        shown = "\n".join((str(outcome), *driver.describe(wider(table)), repr(site)))
    finally:
        sql(pair.primary, "DROP USER 'ghosty'@'127.0.0.1'", account=ROOT)
    assert outcome.result is Result.FAILED
    assert (folder / "env").read_text() == secret
    assert (folder / "mode").read_text().strip() == "600"
    for text in (shown, (folder / "called").read_text(), (folder / "conf").read_text()):
        assert secret not in text
        assert "S3cret" not in text
    assert files() == []


@pytest.mark.parametrize(
    ("says", "why"),
    [
        ("1.1.7 (git commit: x)", "1.1.7"),
        ("1.1.9", "1.1.9"),
        ("unversioned (git commit: unknown)", "does not say which version"),
    ],
)
def test_a_version_that_loses_rows_is_refused(says: str, why: str, folder: Path) -> None:
    path = folder / "old"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    found = judge(path)
    assert isinstance(found, str)
    assert why in found


def test_no_program_is_said_before_anything_is_made(pair: Pair, schema: str, folder: Path) -> None:
    table = orders(pair.primary, schema, 5)
    driver = driver_for(site_for(pair.primary, table), folder / "none")
    path = os.environ["PATH"]
    os.environ["PATH"] = str(folder)
    try:
        with pytest.raises(ConfigurationError) as refused:
            driver.apply(wider(table), Beats())
    finally:
        os.environ["PATH"] = path
    assert "make gh-ost" in refused.value.next
    assert beside(pair.primary, table) == {}
