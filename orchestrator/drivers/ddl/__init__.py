"""Engines that change the shape of a table."""

from orchestrator.drivers.ddl.native import NativeDdl

__all__ = ["NativeDdl"]
