"""Both columns of every pair, after any talk of old and new writers, with the mirror on, off and filled in between."""

from __future__ import annotations

import os

import pytest

from orchestrator.sandbox.server import Server
from tests.support.mirror_sequences import talk

pytestmark = pytest.mark.integration


def seeds(count: int) -> list[int]:
    given = os.environ.get("MIRROR_SEED")
    return [int(given)] if given else [int.from_bytes(os.urandom(4), "big") for _ in range(count)]


def test_the_server_holds_what_the_model_says_after_any_talk(primary: Server) -> None:
    """No statement fails with the mirror that passed without, and an UPDATE counts the rows that it changed."""
    for seed in seeds(3):
        print(f"MIRROR_SEED={seed}")
        assert talk(primary, seed, sequences=4) > 0, "nothing was said"


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_thousand_talks_hold_what_the_model_says(primary: Server) -> None:
    for seed in seeds(400):
        print(f"MIRROR_SEED={seed}")
        assert talk(primary, seed, sequences=50) > 0, "nothing was said"
