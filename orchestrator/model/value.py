"""What is kept in the state: immutable values that msgspec writes as JSON and reads back by their types."""

from __future__ import annotations

from msgspec import Struct


class Value(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the state. A field that this version has no name for was written by a newer one, and is refused."""


class StepBase(Value, frozen=True, kw_only=True, tag_field="kind"):
    """A step; ``kind`` is its name in the state, in plans and in the history."""

    @property
    def kind(self) -> str:
        return str(self.__struct_config__.tag)
