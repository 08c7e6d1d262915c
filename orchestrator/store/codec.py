"""Values of the model as readable JSON, and back: what a crash leaves behind must be understood by the next process."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from msgspec import DecodeError, ValidationError
from msgspec.json import Decoder, Encoder

from orchestrator.errors import ConfigurationError
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Event, Record
from orchestrator.model.step import Step

_encoder = Encoder()


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
    return _encoder.encode(value).decode()


@lru_cache(maxsize=4)
def _decoder(kind: Any) -> Decoder[Any]:
    return Decoder(kind)


def _value(kind: Any, text: str) -> Any:
    try:
        return _decoder(kind).decode(text)
    except (DecodeError, ValidationError) as error:
        raise ConfigurationError(
            f"the stored state cannot be read: {error}",
            "state that this version of rollout, or an older one, has written",
            "use the version of rollout that wrote it, or a newer one",
        ) from error
