"""Engines that change the shape of a table."""

from orchestrator.drivers.ddl.native import NativeDdlDriver

__all__ = ["NativeDdlDriver"]
