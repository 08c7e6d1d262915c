"""The stages as pure planners: what is still missing, as steps, from what was seen."""

from __future__ import annotations

from orchestrator.ports import Phase
from phases.backfill import Backfill
from phases.ddl import Ddl
from phases.finish import Finish
from phases.read_switch import ReadSwitch
from phases.repair import Repair
from phases.rollback import Rollback
from phases.shadow_write import ShadowWrite
from phases.verify import Verify

FORWARD: tuple[Phase, ...] = (Ddl(), Backfill(), ShadowWrite(), ReadSwitch(), Verify())

__all__ = ["FORWARD", "Finish", "Repair", "Rollback"]
