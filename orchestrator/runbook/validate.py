"""From plain values to forms, and from the validator's errors to findings that name line, key and cure."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from orchestrator.model.findings import Finding, Wrong
from orchestrator.runbook.forms_settings import RunbookForm
from orchestrator.runbook.tree import Document, Path
from orchestrator.runbook.unsupported import CHOICES, UNSUPPORTED, pattern

_KINDS = {
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
}
_MARKS = frozenset({"<word>", "<form>", "<list>", "[key]"})


def read_form(document: Document) -> tuple[RunbookForm | None, list[Finding]]:
    """The form, or None and why not. Findings hold what was odd in the text too."""
    found = list(document.findings)
    if not isinstance(document.value, dict):
        found.append(Finding(1, "the file is not a mapping", "a runbook", "copy runbooks/template.yaml"))
        return None, found
    try:
        return RunbookForm.model_validate(document.value), found
    except ValidationError as error:
        found += [_finding(e, document) for e in error.errors(include_url=False)]
        return None, found


def _finding(error: Mapping[str, Any], document: Document) -> Finding:
    path = _path(error["loc"], document.value)
    if error["type"] == "missing":
        above = ".".join(str(p) for p in path[:-1]) or "the runbook"
        seen = f"the key {path[-1]!r} is missing in {_shown_path(path[:-1]) if path[:-1] else above}"
        return Finding(document.line(path[:-1]), seen, f"the key {path[-1]!r}", f"add {path[-1]}: …")
    line = document.line(path)
    if error["type"] == "extra_forbidden":
        return _unknown(path, line)
    return _wrong_value(error, path, line)


def _unknown(path: Path, line: int) -> Finding:
    if known := UNSUPPORTED.get(pattern(path)):
        return Finding(line, f"{_shown_path(path)}: {known[0]}", known[1], known[2])
    keys = sorted(_known_keys(path[:-1]))
    near = difflib.get_close_matches(str(path[-1]), keys, n=1, cutoff=0.5)
    where = f" in {_shown_path(path[:-1])}" if path[:-1] else ""
    seen = f"unknown key {str(path[-1])!r}{where}" + (f", did you mean {near[0]!r}?" if near else "")
    return Finding(line, seen, "one of " + ", ".join(keys), f"write {near[0]}" if near else "delete the key")


def _wrong_value(error: Mapping[str, Any], path: Path, line: int) -> Finding:
    context: Mapping[str, Any] = error.get("ctx") or {}
    where, kind = _shown_path(path), error["type"]
    if isinstance(wrong := context.get("error"), Wrong):
        return Finding(line, f"{where}: {wrong.seen}", wrong.expected, wrong.next)
    shown = _shown(error.get("input"))
    if choice := CHOICES.get(pattern(path)):
        return Finding(line, f"{where}: {shown}: {choice[0]}", str(context.get("expected", "nothing")), choice[1])
    if kind == "literal_error":
        return Finding(line, f"{where} is {shown}", str(context["expected"]), "write one of these")
    if kind in _KINDS:
        quote = (
            f'quote it: "{error["input"]}"'
            if kind == "string_type" and shown[:1] not in "at"
            else f"write {_KINDS[kind]}"
        )
        return Finding(line, f"{where} is {shown}", _KINDS[kind], quote)
    if kind == "string_pattern_mismatch":
        return Finding(line, f"{where} is {shown}", f"a text like {context['pattern']}", "write it so")
    said = str(error["msg"])
    return Finding(line, f"{where} is {shown}", said[:1].lower() + said[1:], "compare with docs/runbook.md")


def _path(loc: tuple[str | int, ...], value: object) -> Path:
    """The validator's location without its own marks of which form it tried; a key of the file may look like a mark."""
    path: list[str | int] = []
    here = value
    for part in loc:
        if part in _MARKS and not (isinstance(here, dict) and part in here):
            continue
        path.append(part)
        if isinstance(here, dict):
            here = here.get(part)
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            here = None
    return tuple(path)


def _shown_path(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "the runbook"


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing (null)"
        case dict():
            return "a mapping"
        case list():
            return "a list" if value else "an empty list"
        case bool():
            return "true" if value else "false"
        case str():
            return repr(value if len(value) <= 60 else value[:57] + "...")
        case _:
            return f"the number {value}"[:60]


def _known_keys(path: Path) -> Iterator[str]:
    for form in _forms_at(path):
        for name, info in form.model_fields.items():
            yield info.alias or name


def _forms_at(path: Path) -> list[type[BaseModel]]:
    forms: list[type[BaseModel]] = [RunbookForm]
    for part in path:
        if isinstance(part, int):
            continue
        fields = [f for form in forms for n, f in form.model_fields.items() if part == (f.alias or n)]
        forms = [form for f in fields for form in _forms_in(f.annotation)]
    return forms


def _forms_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and not typing.get_args(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _forms_in(inner)
