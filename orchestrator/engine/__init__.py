"""What makes a rollout move. Pure of I/O: everything that acts comes in through ``parts.Parts``."""

from orchestrator.engine.commands import Commands
from orchestrator.engine.parts import Parts
from orchestrator.engine.walk import Ended, Paused

__all__ = ["Commands", "Ended", "Parts", "Paused"]
