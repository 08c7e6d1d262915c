"""What is written as YAML reads back as what it was, whatever it was."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.runbook.emit import document, scalar
from orchestrator.runbook.tree import read_document

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20) | st.sampled_from(
    ["", "~", "null", "yes", "1", "1.10", "0x1", "12:30", "2024-01-01", "a\n", "the queue\n", "a: b", "- a", "#", "\\"]
)
NUMBERS = st.integers(-(10**30), 10**30) | st.decimals(allow_nan=False, allow_infinity=False, places=10)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(value=st.dictionaries(TEXTS, VALUES, max_size=4))
def test_a_document_reads_back_as_what_it_was_written_from(value: dict[str, Any]) -> None:
    read = read_document(document(value), "x.yaml")
    assert repr(read.value) == repr(_plainly(value))
    assert read.findings == ()


@pytest.mark.parametrize("key", ["k" * 900, "k" * 5_000, "k\u2028" * 900])
def test_a_long_key_reads_back(key: str) -> None:
    assert read_document(document({"a": {key: {"b": 1}}}), "x.yaml").value == {"a": {key: {"b": 1}}}


@given(text=TEXTS)
def test_a_scalar_is_one_line_that_reads_back_as_its_text(text: str) -> None:
    assert "\n" not in scalar(text)
    assert read_document(f"a: {scalar(text)}", "x.yaml").value == {"a": text}


def _plainly(value: Any) -> Any:
    """Decimals that are whole numbers have no fraction to tell them by."""
    match value:
        case dict():
            return {key: _plainly(item) for key, item in value.items()}
        case list():
            return [_plainly(item) for item in value]
        case Decimal() if value == value.to_integral_value() and value.as_tuple().exponent == 0:
            return int(value)
        case _:
            return value
