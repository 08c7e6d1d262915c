"""NAME.lock: the digest of the contract as it was frozen, then its normal form as JSON. Made by us, read strictly."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from orchestrator.model.contract import Contract
from orchestrator.model.findings import FileFindings, Finding
from orchestrator.runbook.difference import difference_lines
from orchestrator.runbook.digest import canonical, digest

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MEND = "freeze it again: rollout freeze"


@dataclass(frozen=True, slots=True)
class Lock:
    """A frozen contract; ``contract`` is its canonical form."""

    digest: str
    contract: dict[str, object]


def lock_path(runbook: str) -> Path:
    """Where the lock of that runbook lies: beside it."""
    return Path(runbook).with_suffix(".lock")


def lock_text(contract: Contract) -> str:
    """The lock as it is written: JSON, sorted, so that a change of the contract is a change of a few lines."""
    body = json.dumps(canonical(contract), indent=1, sort_keys=True, ensure_ascii=False)
    return f"{digest(contract)}\n{body}\n"


def read_lock(text: str, path: str) -> Lock:
    """The lock in that text. Raises FileFindings when it is none, or was changed by hand."""
    said, _, body = text.partition("\n")
    if not _DIGEST.fullmatch(said):
        raise _refused(path, 1, "the first line is no digest")
    try:
        contract = json.loads(body)
    except json.JSONDecodeError as error:
        raise _refused(path, error.lineno + 1, f"this is not JSON: {error.msg}") from None
    except (RecursionError, ValueError):
        raise _refused(path, 2, "nested too deep, or a number too long") from None
    if not isinstance(contract, dict):
        raise _refused(path, 2, "the contract is missing")
    whole = json.dumps(contract, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    if hashlib.sha256(whole.encode()).hexdigest() != said:
        raise _refused(path, 1, "the digest is not that of the contract: the file was changed by hand")
    return Lock(said, contract)


def _refused(path: str, line: int, seen: str) -> FileFindings:
    return FileFindings(path, [Finding(line, seen, "a lock that rollout freeze wrote", _MEND)])


def explain(lock: Lock, contract: Contract) -> tuple[str, ...]:
    """What the runbook says otherwise than the lock, a line each; empty when they mean the same."""
    return tuple(difference_lines(lock.contract, canonical(contract)))
