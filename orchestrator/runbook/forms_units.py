"""Values with units as fields of the forms: read by ``units``, shown in the schema as a person would write them."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from orchestrator.model.findings import Wrong
from orchestrator.model.window import Window
from orchestrator.runbook.units import (
    DURATION_PATTERN,
    SHARE_PATTERN,
    WINDOW_PATTERN,
    parse_duration,
    parse_share,
    parse_window,
    show_duration,
)

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["5s", "200ms", "10m"]}),
]
Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": "string", "pattern": SHARE_PATTERN, "examples": ["10%"]}),
]


WindowText = Annotated[
    Window,
    BeforeValidator(parse_window),
    WithJsonSchema({"type": "string", "pattern": WINDOW_PATTERN, "examples": ["01:00-05:00 Europe/Berlin"]}),
]


def duration(default_s: float, description: str) -> Any:
    """A duration with a default, which the schema shows as a person would write it."""
    return Field(default=default_s, description=description, json_schema_extra={"default": show_duration(default_s)})


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Wrong(f"{value!r} is not a number", "a number such as 0 or 2.5", "write the number without quotes")
    return float(value)


Number = Annotated[float, BeforeValidator(_number), WithJsonSchema({"type": "number"})]
