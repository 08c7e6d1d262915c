"""The applications as the mirror: which steps that makes in which order, and what they say meanwhile."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from orchestrator.engine import Commands
from orchestrator.errors import RunbookError
from orchestrator.model.contract import Column, Contract, Copy, Default, Expression, Mapping, ValueMap
from orchestrator.model.facts import Facts, FlagFacts, MirrorFacts, Presence, Reading
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Record
from orchestrator.model.step import Quiet, RemoveMirror, StepClass, step_class, step_key
from orchestrator.model.types import parse_type
from orchestrator.ports import Phase
from orchestrator.sandbox.doubling import doubled
from orchestrator.sandbox.mapping import TableModel
from orchestrator.sandbox.script import Operation, Script
from orchestrator.sandbox.statements import parse
from phases import Finish, Rollback
from phases.shadow_write import ShadowWrite
from tests.support.shapes import plain_shape
from tests.support.world import CONTRACT, RUNBOOK, TABLE, Stage

FLAG = replace(RUNBOOK, phases=replace(RUNBOOK.phases, shadow="flag"))
RECORD = Record("orders", TABLE, "d", "", "", "u", phase="shadow-write", columns_added=("state",))


def facts(*, raised: bool) -> Facts:
    return Facts(
        shape=Reading(0.0, plain_shape(TABLE, Column("status", parse_type("int")), *CONTRACT.columns)),
        mirror=Reading(0.0, MirrorFacts.of_flag(raised)),
        flag=Reading(0.0, FlagFacts(True, double_writes=raised)),
    )


def steps(phase: Phase, record: Record, *, raised: bool) -> list[str]:
    return [step_key(s) for s in phase.steps(FLAG, facts(raised=raised), record)]


def test_shadow_write_raises_waits_sweeps_and_demands_proof() -> None:
    proof = ["drain", "fill:sweep", "prove-double-writes", "compare:drift"]
    assert steps(ShadowWrite(), RECORD, raised=False) == ["raise-double-writes", *proof]
    assert steps(ShadowWrite(), RECORD, raised=True) == proof
    assert steps(ShadowWrite(), replace(RECORD, done_steps=("drain", "fill:sweep")), raised=True) == proof[2:]


def test_a_flag_that_somebody_lowered_while_both_were_written_takes_readers_back_first() -> None:
    record = replace(RECORD, both_written=True)
    lost = replace(facts(raised=False), flag=Reading(0.0, FlagFacts(True, new_writes=True, read_percent=25)))
    assert [step_key(s) for s in ShadowWrite().steps(FLAG, lost, record)][:2] == ["lower-flags", "raise-double-writes"]


def test_no_column_goes_before_those_who_wrote_it_beside_the_old_one_have_stopped() -> None:
    dropping = replace(FLAG, phases=replace(FLAG.phases, rollback_ddl=RollbackDdl.DROP))
    record = replace(RECORD, phase="rollback", both_written=True, done=FORWARD)
    found = list(Rollback().steps(dropping, facts(raised=True), record))
    down = ["lower-flags", "drain", "quiet", "compare:drift", "remove-mirror"]
    assert [step_key(s) for s in found] == [*down, "drain:mirror", "quiet:mirror", "drop-columns"]
    kept = Rollback().steps(FLAG, facts(raised=True), record)
    assert [step_key(s) for s in kept] == down, "columns that stay may be written a moment longer"
    dead = replace(record, done=(), both_written=False, done_steps=("lower-flags",))
    left = Rollback().steps(dropping, facts(raised=False), dead)
    assert [step_key(s) for s in left] == ["drain:mirror", "quiet:mirror", "drop-columns"], "also after a crash"


def test_finish_leaves_those_alone_who_write_both_columns_and_ask_the_flag() -> None:
    record = replace(RECORD, phase="finish", done=FORWARD, both_written=True)
    quiet, *_, remove, _ = Finish().steps(FLAG, facts(raised=True), record)
    assert isinstance(quiet, Quiet)
    assert (quiet.flag, quiet.doubled) == (False, (("status", "state"),))
    assert isinstance(remove, RemoveMirror)
    assert (remove.driver, step_class(remove)) == ("flag", StepClass.PASSIVE), "nothing is locked for it"


def test_the_driver_stays_while_its_mirror_stands() -> None:
    stage = Stage()
    for phase in ("ddl", "backfill", "shadow-write"):
        stage.commands.next(phase)
    assert stage.record.mirror == "triggers"
    changed = Commands(replace(stage.parts, runbook=FLAG))
    with pytest.raises(RunbookError, match="the mirror stands as triggers"):
        changed.next(None)
    stage.commands.rollback("backfill", ())
    assert stage.record.mirror == ""
    assert changed.ready(None) is not None


COLUMNS = (
    Column("id", parse_type("int"), null=False),
    Column("status", parse_type("varchar(9)"), null=False, default=Default("new")),
    Column("due_s", parse_type("int"), null=False, default=Default("30")),
    Column("made", parse_type("datetime"), null=False, default=Default("CURRENT_TIMESTAMP", True)),
    Column("note", parse_type("text")),
)
NEW = (
    Column("state", parse_type("varchar(9)")),
    Column("due_ms", parse_type("bigint")),
    Column("since", parse_type("datetime")),
    Column("has_note", parse_type("int")),
)
STATES = ValueMap((("new", "open"), ("done", "shut")))
PAIRS = (
    Mapping("state", "status", STATES, ValueMap((("open", "new"), ("shut", "done"), ("void", "done")))),
    Mapping("due_ms", "due_s", Expression("due_s * 1000"), Expression("due_ms DIV 1000")),
    Mapping("since", "made", Copy()),
    Mapping("has_note", "note", Expression("note IS NOT NULL"), follows=True),
)
F = "CASE WHEN `status` = 'new' THEN 'open' WHEN `status` = 'done' THEN 'shut' END"
B = "CASE WHEN `state` = 'open' THEN 'new' WHEN `state` = 'shut' THEN 'done' WHEN `state` = 'void' THEN 'done' END"
N = "(note IS NOT NULL)"


@pytest.mark.parametrize(
    ("text", "both"),
    [
        (
            "UPDATE orders SET status = 'done' WHERE id = :row",
            f"UPDATE orders SET status = 'done', `state` = {F}, `has_note` = {N} WHERE id = %(row)s",
        ),
        (
            "UPDATE orders SET state = 'void', due_ms = 1500 WHERE id = :row",
            f"UPDATE orders SET state = 'void', due_ms = 1500, `status` = {B}, `due_s` = (due_ms DIV 1000),"
            f" `has_note` = {N} WHERE id = %(row)s",
        ),
        (
            "UPDATE orders SET status = 'done', state = 'shut' WHERE id = :row",
            f"UPDATE orders SET status = 'done', state = 'shut', `has_note` = {N} WHERE id = %(row)s",
        ),
        (
            "INSERT INTO orders (id, status) VALUES (:fresh, 'done'), (:fresh2, 'n)w')",
            "INSERT INTO orders (id, status, `state`, `due_s`, `due_ms`, `since`, `has_note`)"
            f" VALUES (%(fresh)s, 'done', {F}, '30', (due_s * 1000), CURRENT_TIMESTAMP, {N}),"
            f" (%(fresh2)s, 'n)w', {F}, '30', (due_s * 1000), CURRENT_TIMESTAMP, {N})",
        ),
        (
            "INSERT INTO orders (id, due_ms) VALUES (:kept, 2000) ON DUPLICATE KEY UPDATE due_ms = VALUES(due_ms)",
            "INSERT INTO orders (id, due_ms, `status`, `state`, `due_s`, `since`, `has_note`)"
            f" VALUES (%(kept)s, 2000, 'new', {F}, (due_ms DIV 1000), CURRENT_TIMESTAMP, {N})"
            f" ON DUPLICATE KEY UPDATE due_ms = VALUES(due_ms), `due_s` = (due_ms DIV 1000), `has_note` = {N}",
        ),
        ("UPDATE other SET status = 'done' WHERE id = :row", "UPDATE other SET status = 'done' WHERE id = %(row)s"),
        ("DELETE FROM orders WHERE id = :row", "DELETE FROM orders WHERE id = %(row)s"),
    ],
)
def test_the_other_column_of_each_pair_is_written_in_the_same_statement(text: str, both: str) -> None:
    model = TableModel(Contract(TABLE, NEW, mappings=PAIRS), plain_shape(TABLE, *COLUMNS))
    script = Script((), (Operation("said", 1, (parse(text),)),), ())
    (said,) = doubled(script, model, "orders").old[0].statements
    assert said.sql == both


def test_the_flag_is_no_mirror_of_triggers() -> None:
    whole = MirrorFacts.of_triggers(Presence.PRESENT, Presence.PRESENT)
    assert (whole.intact, MirrorFacts.of_flag(True).intact, MirrorFacts.of_flag(False).stands) == (True, True, False)
