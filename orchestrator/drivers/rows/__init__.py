"""Drivers of steps that go through the rows of the table: fill writes, compare only reads."""

from orchestrator.drivers.rows.compare import CompareDriver
from orchestrator.drivers.rows.fill import FillDriver

__all__ = ["CompareDriver", "FillDriver"]
