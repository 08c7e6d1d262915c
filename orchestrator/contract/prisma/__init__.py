"""Prisma schemas read as tables."""

from collections.abc import Sequence

from orchestrator.contract.target import Source, Target


def read_models(sources: Sequence[Source], schema: str) -> tuple[Target, ...]:
    return ()
