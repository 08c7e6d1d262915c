"""DDL read without a server. ``read_tables`` is the way in; what it cannot read is a finding, never a guess."""

from __future__ import annotations

from orchestrator.contract.ddl.reader import read_tables

__all__ = ["read_tables"]
