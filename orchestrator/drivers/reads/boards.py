"""Which board a runbook names; none where applications ask the flag row."""

from __future__ import annotations

from pathlib import Path

from orchestrator.drivers.reads.board import Board
from orchestrator.drivers.reads.flagd import FlagdFile
from orchestrator.drivers.reads.program import ProgramBoard
from orchestrator.model.runbook import Runbook
from orchestrator.ports import Clock


def board_of(runbook: Runbook, clock: Clock) -> Board | None:
    """Opens and runs nothing yet."""
    reader = runbook.phases.reader
    match reader.kind:
        case "flag_table":
            return None
        case "flagd":
            return FlagdFile(Path(reader.argument), runbook.id)
        case "command":
            return ProgramBoard(reader.argument, runbook.id, clock, reader.timeout_s)
