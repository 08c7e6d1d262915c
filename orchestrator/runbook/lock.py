"""NAME.lock: the contract as it was frozen, in its normal form, with its digest. Made by us, read back strictly."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from orchestrator.model.contract import Contract
from orchestrator.model.findings import FileFindings, Finding
from orchestrator.runbook.difference import difference_lines
from orchestrator.runbook.digest import canonical, digest

FORM = "rollout/lock/v1"
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
    words = {"form": FORM, "digest": digest(contract), "contract": canonical(contract)}
    return json.dumps(words, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(text: str, path: str) -> Lock:
    """The lock in that text. Raises FileFindings when it is none, or was changed by hand."""
    try:
        words = json.loads(text)
    except ValueError as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        raise _refused(path, line, f"this is not JSON: {error}") from None
    except RecursionError:
        raise _refused(path, 1, "nested too deep") from None
    if not isinstance(words, dict) or words.get("form") != FORM:
        raise _refused(path, 1, f"the form is not {FORM}")
    said, contract = words.get("digest"), words.get("contract")
    if not isinstance(said, str) or not isinstance(contract, dict):
        raise _refused(path, 1, "digest or contract is missing")
    whole = json.dumps(contract, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    if hashlib.sha256(whole.encode()).hexdigest() != said:
        line = next((n for n, t in enumerate(text.splitlines(), 1) if '"digest"' in t), 1)
        raise _refused(path, line, "the digest is not that of the contract: the file was changed by hand")
    return Lock(said, contract)


def _refused(path: str, line: int, seen: str) -> FileFindings:
    return FileFindings(path, [Finding(line, seen, "a lock that rollout freeze wrote", _MEND)])


def explain(lock: Lock, contract: Contract) -> tuple[str, ...]:
    """What the runbook says otherwise than the lock, a line each; empty when they mean the same."""
    return tuple(difference_lines(lock.contract, canonical(contract)))
