"""The stored text: every value comes back the same, a person can read it, and what is newer is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.inspect import StructType, type_info

from orchestrator.errors import ConfigurationError
from orchestrator.model.contract import Column, Default, ForeignKey, Index, IndexPart, TableName
from orchestrator.model.outcome import Progress
from orchestrator.model.state import Event, EventKind, PhaseRecord, Record, State
from orchestrator.model.step import Step, step_class, step_key
from orchestrator.model.types import ColumnType
from orchestrator.model.value import StepBase, Value
from orchestrator.store import codec
from tests.support.state import begin

KINDS = tuple(m for union in get_args(Step) for m in (get_args(union) or (union,)))
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
moments = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))]))
tables = st.builds(TableName, words, words)
types_ = st.builds(
    ColumnType,
    words,
    length=st.none() | st.integers(0, 70000),
    scale=st.none() | st.integers(0, 30),
    unsigned=st.booleans(),
    labels=st.lists(words, max_size=3).map(tuple),
)
defaults = st.builds(Default, words, st.booleans())
columns = st.builds(Column, words, types_, null=st.booleans(), default=st.none() | defaults, comment=words)
parts = st.builds(IndexPart, words, prefix=st.none() | st.integers(1, 3072), expression=st.none() | words)
indexes = st.builds(Index, words, st.lists(parts, max_size=3).map(tuple), unique=st.booleans(), serves=words)
for kind_, strategy in (
    (TableName, tables),
    (ColumnType, types_),
    (Column, columns),
    (Index, indexes),
    (str, words),
    (float, numbers),
    (datetime, moments),
):
    st.register_type_strategy(kind_, strategy)
keys = st.builds(ForeignKey)
st.register_type_strategy(ForeignKey, keys)
steps = st.one_of(*(st.builds(kind) for kind in KINDS))
records = st.builds(
    Record,
    intent=st.none() | steps,
    state=st.sampled_from(State),
    accepted=st.lists(st.tuples(words, st.integers()), max_size=2).map(tuple),
    baselines=st.lists(st.tuples(words, numbers), max_size=2).map(tuple),
    phases=st.lists(st.builds(PhaseRecord, ended=st.none() | moments, note=words), max_size=2).map(tuple),
    columns_added=st.lists(words, max_size=2).map(tuple),
    indexes_added=st.lists(words, max_size=2).map(tuple),
    foreign_keys_added=st.lists(words, max_size=2).map(tuple),
    both_written=st.booleans(),
)
events = st.builds(
    Event,
    kind=st.sampled_from(EventKind),
    figures=st.dictionaries(words, numbers, max_size=3),
    evidence=st.lists(st.lists(words, max_size=2).map(tuple), max_size=2).map(tuple),
)


def test_every_kind_of_step_has_a_name_of_its_own() -> None:
    names = [kind.__struct_config__.tag for kind in KINDS]
    assert len(names) == len(set(names)) > 15
    assert all(issubclass(kind, StepBase) for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_every_kind_of_step_comes_back_the_same(kind: type, data: st.DataObject) -> None:
    step = data.draw(st.builds(kind))
    again = codec.decode_step(codec.encode_step(step))
    assert again == step
    assert type(again) is kind
    assert (step_key(again), step_class(again)) == (step_key(step), step_class(step))


@given(records)
def test_every_record_comes_back_the_same(record: Record) -> None:
    assert codec.decode_record(codec.encode_record(record)) == record


@given(events)
def test_every_event_comes_back_the_same(event: Event) -> None:
    assert codec.decode_event(codec.encode_event(event)) == event


@given(st.builds(Progress, done=st.integers(0), note=words, rate_per_s=numbers))
def test_all_progress_comes_back_the_same(progress: Progress) -> None:
    assert codec.decode_progress(codec.encode_progress(progress)) == progress


def test_the_text_can_be_read_by_a_person() -> None:
    text = codec.encode_record(begin()[0])
    assert json.loads(text)["table"] == {"schema": "shop", "name": "orders"}
    assert "größe" in text


def _changed(**changes: object) -> str:
    return json.dumps({**json.loads(codec.encode_record(begin()[0])), **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"waltz": 1},
        {"state": "dreaming"},
        {"intent": {"kind": "add-magic"}},
        {"intent": {"no": "kind"}},
        {"revision": "1"},
        {"revision": True},
        {"done": "ddl"},
        {"accepted": [["locked"]]},
        {"table": {"schema": "shop", "name": "orders", "cluster": "x"}},
    ],
    ids=str,
)
def test_what_only_a_newer_version_can_have_written_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        codec.decode_record(_changed(**changes))
    assert "newer" in refused.value.next


@pytest.mark.parametrize("kind", [Record, Event, Progress, *KINDS], ids=lambda kind: kind.__name__)
def test_no_part_of_the_state_takes_a_field_that_it_does_not_know(kind: type) -> None:
    found = {info.cls for info in _structs(type_info(kind))}
    assert kind in found
    assert {cls.__name__ for cls in found if not issubclass(cls, Value)} == set()


def _structs(info: object) -> Iterator[StructType]:
    """Every structure that a value of that type may hold."""
    if isinstance(info, StructType):
        yield info
    for name in getattr(info, "__struct_fields__", ()):
        parts = getattr(info, name)
        for part in parts if isinstance(parts, tuple) else (parts,):
            yield from _structs(part)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3"])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        codec.decode_record(text)


def test_a_field_that_an_older_version_did_not_write_has_its_default() -> None:
    older = json.loads(codec.encode_record(begin()[0]))
    del older["columns_added"], older["note"]
    assert codec.decode_record(json.dumps(older)) == begin()[0]
