"""Who may be killed, and when exclusive locks may be asked for."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from orchestrator.model.blockers import KillPolicy
from orchestrator.model.facts import BlockerKind, Holder
from orchestrator.model.findings import Wrong
from orchestrator.model.window import Window
from orchestrator.runbook.units import parse_window

OLD = Holder(BlockerKind.TRANSACTION, "s.t", "TABLE SHARED_READ", False, 31.0, 7, "app", "web-1", True, "SELECT 1")
POLICY = KillPolicy(30.0, ("Backup",))


def test_nobody_is_killed_unless_the_runbook_says_so() -> None:
    assert not KillPolicy().allows(OLD)
    assert POLICY.allows(OLD)


@pytest.mark.parametrize(
    "spared",
    [
        replace(OLD, age_s=29.9),
        replace(OLD, user="backup"),
        replace(OLD, user="system user"),
        replace(OLD, user="event_scheduler"),
        replace(OLD, user=""),
        replace(OLD, waiting=True),
        replace(OLD, process_id=None, kind=BlockerKind.PREPARED_XA),
        replace(OLD, kind=BlockerKind.PREPARED_XA),
        replace(OLD, kind=BlockerKind.BACKUP_LOCK),
        replace(OLD, kind=BlockerKind.GLOBAL_READ_LOCK),
        replace(OLD, kind=BlockerKind.DDL),
    ],
)
def test_who_is_young_named_or_not_an_application_is_never_killed(spared: Holder) -> None:
    assert not POLICY.allows(spared)


@pytest.mark.parametrize(
    ("text", "now", "hours"),
    [
        ("01:00-05:00 Europe/Berlin", datetime(2026, 1, 10, 0, 30, tzinfo=UTC), 0.0),
        ("01:00-05:00 Europe/Berlin", datetime(2026, 1, 10, 4, 0, tzinfo=UTC), 20.0),
        ("01:00-05:00 Europe/Berlin", datetime(2026, 7, 10, 22, 0, tzinfo=UTC), 1.0),
        ("22:00-02:00 UTC", datetime(2026, 1, 10, 1, 59, tzinfo=UTC), 0.0),
        ("22:00-02:00 UTC", datetime(2026, 1, 10, 2, 0, tzinfo=UTC), 20.0),
    ],
)
def test_a_window_is_read_on_the_clock_of_its_place(text: str, now: datetime, hours: float) -> None:
    window = parse_window(text)
    assert isinstance(window, Window)
    assert window.opens_in_s(now) == hours * 3600
    assert str(window) == text


@pytest.mark.parametrize(
    "text", ["01:00-05:00", "1-5 UTC", "01:00-01:00 UTC", "01:00-05:00 Nowhere/Town", 5, "25:00-02:00 UTC"]
)
def test_a_window_that_says_nothing_is_refused(text: object) -> None:
    with pytest.raises(Wrong):
        parse_window(text)
