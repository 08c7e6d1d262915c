"""The JSON Schema that editors read, made from the forms."""

from __future__ import annotations

import json

from orchestrator.runbook.forms_settings import RunbookForm


def schema_text() -> str:
    """The schema as it is committed; a test holds the two equal."""
    schema = RunbookForm.model_json_schema(by_alias=True)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A runbook of rollout"}
    return json.dumps(head | {k: v for k, v in schema.items() if k != "title"}, indent=2, ensure_ascii=False) + "\n"
