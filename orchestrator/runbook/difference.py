"""What changed between two contracts, in lines that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from orchestrator.errors import RunbookError
from orchestrator.model.runbook import Runbook
from orchestrator.runbook.digest import canonical
from orchestrator.runbook.load import parse


def explain_difference(old_text: str, new: Runbook) -> str:
    """One line for each part of the contract that differs, ``part: old → new``; empty when the contracts mean the same.

    ``old_text`` is a whole runbook as the state keeps it. When this version cannot read it any more, that is said.
    """
    try:
        before = dict(_leaves(canonical(parse(old_text, "the runbook in the state").contract)))
    except RunbookError as error:
        return f"the runbook in the state cannot be read by this version: {error.seen.splitlines()[0]}"
    after = dict(_leaves(canonical(new.contract)))
    lines = []
    for path in dict.fromkeys([*before, *after]):
        if before.get(path) != after.get(path):
            lines.append(f"{path}: {before.get(path, '(absent)')} → {after.get(path, '(absent)')}")
    return "\n".join(lines)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, dict):
        return
    elif isinstance(value, list) and path.startswith("applications"):
        for statement in value:
            yield f"{path}: {statement}", "declared"
    else:
        yield path, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
