"""What signals ask of a command that acts."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from orchestrator.cli.signals import Interrupts
from orchestrator.model.state import Ask

HEARD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HEARD}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", HEARD, ids=lambda n: n.name)
def test_the_first_signal_pauses_and_a_second_ctrl_c_aborts(number: signal.Signals) -> None:
    heard = Interrupts()
    heard.install()
    assert heard.asked() is None
    signal.raise_signal(number)
    assert heard.asked() is Ask.PAUSE
    signal.raise_signal(signal.SIGTERM)
    assert heard.asked() is Ask.PAUSE
    signal.raise_signal(signal.SIGINT)
    assert heard.asked() is Ask.ABORT


def test_under_nohup_the_end_of_the_terminal_is_nothing() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard = Interrupts()
    heard.install()
    signal.raise_signal(signal.SIGHUP)
    assert heard.asked() is None
