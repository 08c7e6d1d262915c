"""What changed between two contracts, in lines that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterator

from orchestrator.errors import RunbookError
from orchestrator.model.runbook import Runbook
from orchestrator.model.types import Family, parse_type
from orchestrator.runbook.digest import canonical
from orchestrator.runbook.load import parse

_NAMED = ("columns", "changes", "indexes", "foreign_keys", "checks", "mappings", "invariants")
_ABSENT = "(absent)"


def explain_difference(old_text: str, new: Runbook) -> str:
    """One line for each part of the contract that differs, ``part: old → new``; empty when the contracts mean the same.

    ``old_text`` is a whole runbook as the state keeps it. When this version cannot read it any more, that is said.
    """
    try:
        old = canonical(parse(old_text, "the runbook in the state").contract)
    except RunbookError as error:
        return f"the runbook in the state cannot be read by this version: {error.seen.splitlines()[0]}"
    return "\n".join(difference_lines(old, canonical(new.contract)))


def difference_lines(old: dict[str, object], new: dict[str, object]) -> Iterator[str]:
    """``part: old → new``, with whom it favours where that can be told: a line for each thing that differs between two
    canonical forms."""
    for part in dict.fromkeys([*new, *old]):
        before, after = old.get(part, {}), new.get(part, {})
        if before == after:
            continue
        if part in _NAMED and isinstance(before, dict) and isinstance(after, dict):
            for name in dict.fromkeys([*before, *after]):
                yield from _thing(f"{part}.{name}", before.get(name), after.get(name))
        elif part == "applications" and isinstance(before, dict) and isinstance(after, dict):
            for version in after:
                yield from _statements(f"{part}.{version}", before[version], after[version])
        elif part != "column order" or _common_order(before, after):
            yield from _thing(part, before, after)


def _common_order(before: object, after: object) -> bool:
    """Whether the columns that both have stand in another order; what came or went is told as such."""
    if not isinstance(before, list) or not isinstance(after, list):
        return True
    return [c for c in before if c in after] != [c for c in after if c in before]


def _thing(path: str, before: object, after: object) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in dict.fromkeys([*before, *after]):
            yield from _thing(f"{path}.{key}", before.get(key), after.get(key))
    else:
        favour = _favour(path.rsplit(".", 1)[-1], before, after)
        yield f"{path}: {_shown(before)} → {_shown(after)}" + (f"  ({favour})" if favour else "")


def _favour(key: str, before: object, after: object) -> str:
    """In whose favour a change is; "" where neither old nor new gains by it."""
    if before is None:
        return "more than was frozen"
    if after is None:
        return "less than was frozen"
    if key == "null":
        return "looser: takes NULL" if after else "stricter: refuses NULL that was taken"
    if key == "unique":
        return "stricter: refuses rows that were taken" if after else "looser: takes rows that were refused"
    if key == "type":
        return _wider(str(before), str(after))
    return ""


def _wider(before: str, after: str) -> str:
    try:
        old, new = parse_type(before), parse_type(after)
    except ValueError:
        return ""
    if old.family is not new.family:
        return "another kind of value"
    if old.family is Family.INTEGER:
        (low, high), (least, most) = old.integer_range, new.integer_range
        takes_more, takes_less = least <= low and most >= high, least >= low and most <= high
    else:
        sizes = [(t.length or t.byte_limit or len(t.labels), t.scale or 0) for t in (old, new)]
        takes_more, takes_less = sizes[1] >= sizes[0], sizes[1] <= sizes[0]
    return "wider: takes all that was taken" if takes_more else "narrower: refuses what was taken" if takes_less else ""


def _statements(path: str, before: list[str], after: list[str]) -> Iterator[str]:
    yield from (f"{path}: {s} → {_ABSENT}" for s in before if s not in after)
    yield from (f"{path}: {_ABSENT} → {s}" for s in after if s not in before)


def _shown(value: object) -> str:
    """One short text; what is empty or ordinary in a thing is left out."""
    if value is None:
        return _ABSENT
    if isinstance(value, dict):
        said = {k: v for k, v in value.items() if v not in (None, "", "none", False, [])}
        return ", ".join(f"{k} {_shown(v)}" for k, v in said.items()) or _ABSENT
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
