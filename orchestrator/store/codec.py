"""Values of the model as readable JSON, and back: what a crash leaves behind must be understood by the next process.

Written over ``typing`` alone: the state is read by ``rollout status``, which has no time for a validation library.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from orchestrator.errors import ConfigurationError
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Event, Record
from orchestrator.model.step import Step

T = TypeVar("T")
_PLAIN = (bool, int, float, str, type(None))


class _Unknown(Exception):
    """The text holds something that this version has no name for."""


def encode_record(record: Record) -> str:
    return _text(record)


def decode_record(text: str) -> Record:
    """The inverse of ``encode_record``. Raises ConfigurationError for what only a newer version can have written."""
    return cast(Record, _value(Record, text))


def encode_event(event: Event) -> str:
    return _text(event)


def decode_event(text: str) -> Event:
    """The inverse of ``encode_event``. Raises ConfigurationError."""
    return cast(Event, _value(Event, text))


def encode_progress(progress: Progress) -> str:
    return _text(progress)


def decode_progress(text: str) -> Progress:
    """The inverse of ``encode_progress``. Raises ConfigurationError."""
    return cast(Progress, _value(Progress, text))


def encode_step(step: Step) -> str:
    return _text(step)


def decode_step(text: str) -> Step:
    """The inverse of ``encode_step``. Raises ConfigurationError."""
    return cast(Step, _value(Step, text))


def _text(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(v) for v in value]
    if isinstance(value, _PLAIN):
        return value
    raise TypeError(f"{type(value).__name__} has no form in the state")


def _value(hint: Any, text: str) -> Any:
    try:
        return _typed(hint, json.loads(text))
    except (_Unknown, ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(
            f"the stored state cannot be read: {error}",
            "state that this version of rollout, or an older one, has written",
            "use the version of rollout that wrote it, or a newer one",
        ) from error


def _typed(hint: Any, data: Any) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint, data)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(data)
    if hint is datetime:
        return datetime.fromisoformat(data)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _member(get_args(hint), data)
    if origin is tuple:
        return _tuple(get_args(hint), data)
    if origin is dict:
        return {k: _typed(get_args(hint)[1], v) for k, v in data.items()}
    if origin is Literal:
        if data not in get_args(hint):
            raise _Unknown(f"{data!r} is none of {', '.join(map(repr, get_args(hint)))}")
        return data
    return _scalar(hint, data)


def _scalar(hint: Any, data: Any) -> Any:
    if hint is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if hint not in _PLAIN or type(data) is not hint:
        raise _Unknown(f"{data!r} is not {getattr(hint, '__name__', hint)}")
    return data


def _tuple(members: tuple[Any, ...], data: Any) -> tuple[Any, ...]:
    if not isinstance(data, list):
        raise _Unknown(f"{data!r} is not a list")
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_typed(members[0], item) for item in data)
    return tuple(_typed(member, item) for member, item in zip(members, data, strict=True))


def _member(members: tuple[Any, ...], data: Any) -> Any:
    """The member of a union that ``data`` is: by ``kind`` among steps, else the first that takes it."""
    if data is None and type(None) in members:
        return None
    if isinstance(data, dict) and "kind" in data:
        chosen = _kinds(members).get(data["kind"])
        if chosen is None:
            raise _Unknown(f"there is no step {data['kind']!r}")
        return _dataclass(chosen, data)
    rest = [m for m in members if m is not type(None)]
    if len(rest) != 1:
        raise _Unknown(f"{data!r} does not say what it is")
    return _typed(rest[0], data)


@lru_cache(maxsize=8)
def _kinds(members: tuple[Any, ...]) -> dict[str, Any]:
    return {str(f.default): m for m in members if is_dataclass(m) for f in fields(m) if f.name == "kind"}


@lru_cache(maxsize=128)
def _fields(hint: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Types of all fields, and the names of those that a text must have."""
    needed = frozenset(f.name for f in fields(hint) if not _has_default(f))
    return get_type_hints(hint), needed


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _dataclass(hint: Any, data: Any) -> Any:
    if not isinstance(data, dict):
        raise _Unknown(f"{data!r} is not a {hint.__name__}")
    hints, needed = _fields(hint)
    if unknown := sorted(data.keys() - hints.keys()):
        raise _Unknown(f"{hint.__name__} has no {unknown[0]!r}")
    if missing := sorted(needed - data.keys()):
        raise _Unknown(f"{hint.__name__} lacks {missing[0]!r}")
    return hint(**{name: _typed(hints[name], value) for name, value in data.items()})
