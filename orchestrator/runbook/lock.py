"""NAME.lock: the digest of the contract as it was frozen, then its normal form as JSON. Made by us, read strictly."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from orchestrator.model.contract import Contract
from orchestrator.runbook.difference import difference_lines
from orchestrator.runbook.digest import canonical
from orchestrator.runbook.sealed import Kind, read_sealed, sealed_text

_LOCK = Kind("a lock that rollout freeze wrote", "freeze it again: rollout freeze")


class Lock(Struct, frozen=True):
    """A frozen contract; ``contract`` is its canonical form."""

    digest: str
    contract: dict[str, object]


def lock_path(runbook: str) -> Path:
    """Where the lock of that runbook lies: beside it."""
    return Path(runbook).with_suffix(".lock")


def lock_text(contract: Contract) -> str:
    """The lock as it is written."""
    return sealed_text(canonical(contract))


def read_lock(text: str, path: str) -> Lock:
    """The lock in that text. Raises FileFindings when it is none, or was changed by hand."""
    said, contract = read_sealed(text, path, _LOCK)
    return Lock(said, contract)


def explain(lock: Lock, contract: Contract) -> tuple[str, ...]:
    """What the runbook says otherwise than the lock, a line each; empty when they mean the same."""
    return tuple(difference_lines(lock.contract, canonical(contract)))
