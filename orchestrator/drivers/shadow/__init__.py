"""What keeps old and new columns together, whoever writes."""

from orchestrator.drivers.shadow.double_writes import DoubleWriteProof, FlagMirrorDriver
from orchestrator.drivers.shadow.trial import MirrorTrialDriver
from orchestrator.drivers.shadow.triggers import TriggerDriver

__all__ = ["DoubleWriteProof", "FlagMirrorDriver", "MirrorTrialDriver", "TriggerDriver"]
