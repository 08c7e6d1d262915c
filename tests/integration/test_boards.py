"""Flags that applications read elsewhere: the order of row and board, what is fenced, and never half a file."""

from __future__ import annotations

import fcntl
import io
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.cli.demo import Demo
from orchestrator.drivers.reads.board import Board, BoardFailed, BoardFlags
from orchestrator.drivers.reads.flagd import FlagdFile, flag_names
from orchestrator.drivers.reads.program import ProgramBoard
from orchestrator.errors import CannotSay, Fenced, Held, PhaseFailed
from orchestrator.model.state import State
from orchestrator.mysql.clock import SystemClock
from orchestrator.mysql.flags import MysqlFlags
from orchestrator.runbook.load import load
from orchestrator.sandbox import flagd_reader
from orchestrator.sandbox.flagd_reader import FlagdReader
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.places import SandboxError, cache_folder
from orchestrator.sandbox.server import Server
from orchestrator.store.mysql import MysqlStore
from tests.support.servers import wait_for
from tests.support.small import Small, small
from tests.support.state import settings_of, state_schema
from tests.support.within import opened

ID = "orders-state"
pytestmark = pytest.mark.integration
PROGRAM = """\
#!/bin/sh
cd "$(dirname "$0")" || exit 9
[ -e broken ] && { echo "no way to the proxy" >&2; exit 4; }
[ -e blind ] && [ "$1" = get ] && exit 4
case $1 in
  set) [ -e deaf ] || echo "$2 $ROLLOUT_NEW_WRITES" >state; echo "was $ROLLOUT_ID $ROLLOUT_EPOCH" ;;
  get) cat state 2>/dev/null || echo 0 ;;
esac
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "flip"
    path.write_text(PROGRAM)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture(params=["flagd", "command"])
def board(request: pytest.FixtureRequest, tmp_path: Path, program: Path) -> Board:
    if request.param == "flagd":
        return FlagdFile(tmp_path / "flags.json", ID)
    return ProgramBoard(str(program), ID, SystemClock(), 5.0)


@pytest.fixture(scope="module")
def schema_name(primary: Server) -> Iterator[str]:
    with state_schema(primary) as name:
        store = MysqlStore(settings_of(primary, name), SystemClock())
        store.install()
        yield name
        store.close()


@pytest.fixture
def row(primary: Server, schema_name: str) -> Iterator[MysqlFlags]:
    store = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with store.lease(ID, "kim") as lease:
        store.purge(ID, lease.epoch)
    store.close()
    made = MysqlFlags(settings_of(primary, schema_name), ID, SystemClock())
    yield made
    made.close()


def flags_of(row: MysqlFlags, board: Board, lost_s: float = 60.0) -> BoardFlags:
    return BoardFlags(row, board, SystemClock(), lost_s)


def test_row_and_board_show_the_same_there_and_back(row: MysqlFlags, board: Board) -> None:
    flags = flags_of(row, board)
    assert board.seen() == (False, 0)
    flags.open(1, 60.0)
    assert (board.seen(), row.read().new_writes) == ((True, 0), True)
    flags.set_percent(1, 25, 60.0)
    facts = flags.read()
    assert (facts.shown, facts.effective_percent, row.read().read_percent) == ((True, 25), 25, 25)
    assert flags.renew(1, 25, 60.0)
    flags.set_percent(1, 100, 60.0)
    assert flags.keep(1, 100)
    flags.lower(1)
    assert (board.seen(), row.read().raised, flags.read().raised) == ((False, 0), False, False)


def test_an_actor_that_was_fenced_never_reaches_the_board(
    primary: Server, schema_name: str, row: MysqlFlags, board: Board
) -> None:
    flags = flags_of(row, board)
    store = MysqlStore(settings_of(primary, schema_name), SystemClock())
    with store.lease(ID, "kim") as lease:
        flags.open(lease.epoch, 60.0)
        flags.set_percent(lease.epoch, 5, 60.0)
    store.bump_epoch(ID)
    store.close()
    with pytest.raises(Fenced):
        flags.set_percent(lease.epoch, 50, 60.0)
    with pytest.raises(Fenced):
        flags.open(lease.epoch, 60.0)
    assert board.seen() == (True, 5)


def test_a_lost_watcher_is_seen_although_the_board_cannot_expire(row: MysqlFlags, board: Board) -> None:
    """What ADR 0003 says is left: the row expires, the board stays, and the facts say what applications see."""
    flags = flags_of(row, board)
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 0.05)
    wait_for(lambda: row.read().expired, 5)
    facts = flags.read()
    assert (facts.effective_percent, facts.effective_new_writes, facts.raised) == (25, True, True)
    assert not flags.renew(1, 25, 60.0)
    flags.lower(None)
    assert (flags.read().effective_percent, flags.read().raised) == (0, False)


def test_a_board_that_somebody_else_moved_is_not_ours_any_more(row: MysqlFlags, board: Board, tmp_path: Path) -> None:
    flags = flags_of(row, board)
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 60.0)
    other = FlagdFile(tmp_path / "flags.json", ID) if isinstance(board, FlagdFile) else board
    other.show(1, (True, 50))
    assert not flags.renew(1, 25, 60.0)


def test_a_program_that_fails_is_told_with_its_words_and_lowered(row: MysqlFlags, program: Path) -> None:
    flags = flags_of(row, ProgramBoard(str(program), ID, SystemClock(), 5.0))
    flags.open(1, 60.0)
    assert flags.said == f"was {ID} 1"
    for mark, said in (("broken", "exit code 4: no way to the proxy"), ("deaf", "it shows 0 %, new_writes open")):
        (program.parent / mark).touch()
        with pytest.raises(Held, match=said):
            flags.set_percent(1, 25, 60.0)
        (program.parent / mark).unlink()
    (program.parent / "broken").touch()
    with pytest.raises(CannotSay, match="readers may still be on the new column") as caught:
        flags.lower(1)
    assert f"{program} set 0" in caught.value.next
    assert not row.read().raised, "the row is lowered whatever the program says"


def test_a_program_that_cannot_say_is_believed_for_a_while_and_not_for_ever(row: MysqlFlags, program: Path) -> None:
    (program.parent / "state").write_text("0 closed")
    for lost_s, stands in ((60.0, True), (-1.0, False)):
        flags = flags_of(row, ProgramBoard(str(program), ID, SystemClock(), 5.0), lost_s)
        flags.open(1, 60.0)
        flags.set_percent(1, 25, 60.0)
        unread = BoardFlags(row, ProgramBoard(str(program), ID, SystemClock(), 5.0), SystemClock(), lost_s)
        (program.parent / "blind").touch()
        assert unread.renew(1, 25, 60.0) is stands
        (program.parent / "blind").unlink()
        flags.lower(1)


@pytest.mark.parametrize(
    ("get", "why"), [("echo many", "not a percent"), ("echo 101", "not a percent"), ("echo 5 maybe", "not a percent")]
)
def test_garbage_of_a_program_is_nothing_that_applications_see(tmp_path: Path, get: str, why: str) -> None:
    path = tmp_path / "flip"
    path.write_text(f"#!/bin/sh\n{get}\n")
    path.chmod(0o755)
    with pytest.raises(BoardFailed, match=why):
        ProgramBoard(str(path), ID, SystemClock(), 5.0).seen()


def test_a_program_that_hangs_or_is_not_there_ends_in_time(tmp_path: Path) -> None:
    path = tmp_path / "flip"
    with pytest.raises(BoardFailed, match="cannot be run"):
        ProgramBoard(str(path), ID, SystemClock(), 0.2).seen()
    path.write_text("#!/bin/sh\nsleep 30\n")
    path.chmod(0o755)
    with pytest.raises(BoardFailed, match=r"no answer within 0\.2 s"):
        ProgramBoard(str(path), ID, SystemClock(), 0.2).seen()


def test_b130_a_reader_in_a_loop_never_sees_anything_but_a_whole_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 switches. The disk is not waited for: what readers see does not hang on it."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    path = tmp_path / "flags.json"
    board = FlagdFile(path, ID)
    board.show(1, (True, 1))
    over, seen, wrong = threading.Event(), [0], list[str]()

    def read() -> None:
        last = 0
        while not over.is_set():
            try:
                found = json.loads(path.read_text())
                version = found["metadata"]["version"]
                if version < last or set(found["flags"]) != set(flag_names(ID)):
                    wrong.append(f"version {version} after {last}")
                last = version
            except (OSError, ValueError, KeyError) as error:
                wrong.append(repr(error))
            seen[0] += 1

    reader = threading.Thread(target=read)
    reader.start()
    for at in range(1000):
        board.show(1, (True, at % 100 + 1))
    over.set()
    reader.join()
    assert wrong == []
    assert seen[0] > 100
    assert json.loads(path.read_text())["metadata"]["version"] == 1001
    assert [p.name for p in tmp_path.iterdir()] == ["flags.json"], "no side file and no lock is left"


def test_a_flagd_file_that_a_later_epoch_raised_is_not_cleared_by_who_comes_late(tmp_path: Path) -> None:
    board = FlagdFile(tmp_path / "flags.json", ID)
    board.clear(1)
    board.show(7, (True, 25))
    with pytest.raises(BoardFailed, match="written under epoch 7, we act under 6"):
        board.clear(6)
    assert board.seen() == (True, 25)
    board.clear(7)
    assert list(tmp_path.iterdir()) == []
    board.show(7, (False, 0))
    board.clear(6)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_stands_still_does_not_keep_the_row_from_being_lowered(row: MysqlFlags, tmp_path: Path) -> None:
    """What it was about to write may come when it wakes: the file is not touched, and a person is told."""
    board = FlagdFile(tmp_path / "flags.json", ID, turn_s=0.2)
    flags = flags_of(row, board)
    flags.open(1, 60.0)
    flags.set_percent(1, 25, 60.0)
    folder = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with pytest.raises(CannotSay, match="another process has held the lock"):
        flags.lower(1)
    assert not row.read().raised
    assert board.seen() == (True, 25)
    with pytest.raises(Held, match="another process has held the lock"):
        flags.clear(1)
    os.close(folder)
    flags.lower(1)
    assert board.seen() == (False, 0)


def test_b129_a_file_that_is_not_ours_is_neither_read_nor_written(tmp_path: Path) -> None:
    path = tmp_path / "flags.json"
    other = FlagdFile(path, "another")
    other.show(1, (True, 50))
    before = path.read_bytes()
    board = FlagdFile(path, ID)
    for shown in ((True, 5), (False, 0)):
        with pytest.raises(BoardFailed, match="belongs to the rollout another"):
            board.show(9, shown)
    with pytest.raises(BoardFailed, match="belongs to"):
        board.clear(9)
    path.write_text("{}")
    with pytest.raises(BoardFailed, match="not a file that rollout wrote"):
        board.seen()
    path.write_bytes(before.replace(b"another", ID.encode())[:-9])
    with pytest.raises(BoardFailed, match="cannot be read"):
        board.show(9, (True, 5))
    path.write_bytes(before.replace(b"another", ID.encode()).replace(b'"on",', b'"off",'))
    with pytest.raises(BoardFailed, match="somebody else changed it"):
        board.show(9, (True, 5))
    board.show(9, (False, 0))
    assert board.seen() == (False, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_b129_a_folder_without_permission_is_an_error_and_not_an_absent_flag(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(BoardFailed, match="cannot be written: Permission denied"):
        FlagdFile(tmp_path / "flags.json", ID).show(1, (True, 5))
    tmp_path.chmod(0o700)


def test_b129_a_folder_that_is_missing_is_an_error_and_not_an_absent_flag(tmp_path: Path) -> None:
    with pytest.raises(BoardFailed, match="its folder cannot be used: No such file"):
        FlagdFile(tmp_path / "gone" / "flags.json", ID).show(1, (True, 5))


def test_a_writer_of_an_older_epoch_may_only_lower(tmp_path: Path) -> None:
    board = FlagdFile(tmp_path / "flags.json", ID)
    board.show(7, (True, 25))
    with pytest.raises(BoardFailed, match="written under epoch 7, we act under 6"):
        board.show(6, (True, 50))
    assert board.seen() == (True, 25)
    board.show(6, (False, 0))
    assert board.seen() == (False, 0)


ASK = """
import json, sys
from openfeature import api
from openfeature.contrib.provider.flagd import FlagdProvider
from openfeature.contrib.provider.flagd.config import ResolverType
from openfeature.evaluation_context import EvaluationContext
api.set_provider_and_wait(FlagdProvider(resolver_type=ResolverType.FILE, offline_flag_source_path=sys.argv[1]))
client = api.get_client()
of = [EvaluationContext(targeting_key=str(n)) for n in range(2000)]
writes = client.get_boolean_details(sys.argv[2], False, of[0])
reads = [client.get_boolean_details(sys.argv[3], False, c) for c in of]
on = [n for n, r in enumerate(reads) if r.value]
print(json.dumps([writes.value, on, sorted({str(r.error_code) for r in reads})]))
api.shutdown()
"""


def test_openfeatures_own_provider_obeys_the_file_by_percent_and_an_entity_stays_on_its_side(tmp_path: Path) -> None:
    folder = cache_folder() / "flagd"
    if not (folder / "openfeature").exists():
        pytest.skip("openfeature-provider-flagd was not fetched (tools/flagd/fetch says why)")
    board = FlagdFile(tmp_path / "flags.json", ID)
    before: set[int] = set()
    for shown in ((True, 25), (True, 50), (False, 0)):
        board.show(1, shown)
        command = [sys.executable, "-c", ASK, str(tmp_path / "flags.json"), *flag_names(ID)]
        environment = {**os.environ, "PYTHONPATH": str(folder)}
        told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 0, told.stderr
        writes, reading, errors = json.loads(told.stdout.splitlines()[-1])
        assert (writes, errors) == (shown[0], ["None"])
        assert abs(len(reading) / 20 - shown[1]) < 4
        if shown[0]:
            assert before <= set(reading)
            before = set(reading)


def test_the_demonstrations_application_obeys_the_file_by_that_provider_within_a_poll(tmp_path: Path) -> None:
    if not (cache_folder() / "flagd" / "openfeature").exists():
        pytest.skip("openfeature-provider-flagd was not fetched (tools/flagd/fetch says why)")
    board = FlagdFile(tmp_path / "flags.json", ID)
    reader = FlagdReader(tmp_path / "flags.json", flag_names(ID), 1.0)
    keys = [(n, "é") for n in range(400)]

    def on_new() -> set[tuple[object, ...]]:
        decision = reader.decide()
        return {key for key in keys if decision.reads_new(key)}

    try:
        assert (reader.decide().new_writes, on_new()) == (False, set()), "before there is a file"
        board.show(1, (True, 0))
        assert (reader.decide().new_writes, on_new()) == (True, set())
        board.show(1, (True, 30))
        wait_for(lambda: 60 < len(on_new()) < 180, 2.5, "30 % of the readers")
        board.show(1, (True, 100))
        wait_for(lambda: on_new() == set(keys), 2.5)
        board.show(1, (False, 0))
        wait_for(lambda: (reader.decide().new_writes, on_new()) == (False, set()), 2.5)
    finally:
        reader.close()


def test_without_that_provider_the_demonstration_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flagd_reader, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(flagd_reader, "_PROVIDER", "openfeature_that_is_not_there")
    with pytest.raises(SandboxError) as caught:
        Demo(100, 1, io.StringIO(), "flagd").run()
    assert "flagd provider is not on this machine" in caught.value.seen
    assert "make flagd" in caught.value.next


@pytest.fixture
def here(pair: Pair, tmp_path: Path) -> Iterator[Small]:
    with small(pair, tmp_path) as made:
        yield made


def test_a_whole_ramp_by_a_flagd_file_and_back_and_nothing_of_it_is_left_after_purge(
    here: Small, tmp_path: Path
) -> None:
    path = tmp_path / "flags.json"
    reader = f"driver: flagd, flagd: {{file: {path}}}, on_watcher_loss: stay, percent: [50, 100]"
    here.write(("percent: [50, 100]", reader))
    board = FlagdFile(path, "orders-state")
    with opened(load(here.terminal.runbook), here.pair.primary) as app:
        planned = [line for stage in app.planner.plan().stages for step in stage.steps for line in step.sql]
        assert any("nothing takes readers back by itself" in line for line in planned)
        for phase in ("ddl", "backfill", "shadow-write", "read-switch"):
            app.commands.next(phase)
        assert board.seen() == (True, 100)
        board.show(99, (True, 50))
        with pytest.raises(PhaseFailed, match="applications see 50 %, and the flag row says 100 %"):
            app.commands.next("verify")
        assert board.seen() == (False, 0)
        record = app.store.load("orders-state")
        assert record is not None
        assert record.state is State.ROLLED_BACK
        app.commands.rollback("", ())
        app.commands.purge()
    assert not path.exists()
