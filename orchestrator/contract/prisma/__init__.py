"""Prisma schemas: read as the tables that they stand for, and written from a contract."""

from __future__ import annotations

from orchestrator.contract.prisma.tables import read_models

__all__ = ["read_models"]
