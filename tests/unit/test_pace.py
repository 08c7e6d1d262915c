"""How big the next batch is, how long a wait is, and what a beat is told."""

from __future__ import annotations

import pytest

from orchestrator.drivers.rows.listening import Listening, stopped
from orchestrator.errors import ServerUnreachable
from orchestrator.model.outcome import GO, Progress, Result, Signal, SignalKind
from orchestrator.mysql.comparison import SAMPLES, Tally
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.keyset import FIRST_ROWS, BatchSize
from orchestrator.mysql.pace import _processors
from orchestrator.mysql.persistence import Backoff, persist
from orchestrator.mysql.values import ValueTally, shown
from tests.support.state import HandClock

BACKOFF = Backoff(lambda: 1.0, first_s=0.1, most_s=0.4, tries=4)


def test_a_batch_grows_at_most_twofold_and_never_beyond_its_bound() -> None:
    size = BatchSize.start(0.08, 1000)
    sizes = [size.rows]
    for _ in range(5):
        size = size.after(size.rows, 0.001)
        sizes.append(size.rows)
    assert sizes == [200, 400, 800, 1000, 1000, 1000]


def test_a_slow_batch_shrinks_the_next_one_to_the_target() -> None:
    assert BatchSize(0.08, 5000, 1000).after(1000, 0.8).rows == 100
    assert BatchSize(0.08, 5000, 1).after(1, 10.0).rows == 1


def test_what_a_smaller_batch_would_not_save_makes_it_no_smaller() -> None:
    """Commits that take long make all batches long, and small ones only many."""
    size = BatchSize(0.08, 5000, 200)
    assert size.after(200, 0.08).rows == 200
    assert size.after(200, 0.12, fixed_s=0.06).rows == 200
    assert size.after(200, 0.12, fixed_s=0.02).rows == 120
    assert size.after(200, 0.5, fixed_s=0.4).rows == 160


def test_lucky_batches_make_the_next_one_late_only_when_there_are_many() -> None:
    size = BatchSize(0.08, 5000, 100).after(100, 0.08)
    assert size.after(100, 0.04).rows < 110
    sizes = []
    for _ in range(60):
        size = size.after(size.rows, size.rows * 0.0004)
        sizes.append(size.rows)
    assert sizes == sorted(sizes)
    assert sizes[-1] in (199, 200)


def test_a_batch_that_was_cut_at_an_end_says_nothing_unless_it_was_late() -> None:
    size = BatchSize(0.08, 5000, 5000, row_s=0.000016)
    assert size.after(1, 0.0005) == size
    assert size.after(100, 0.8).rows < 100


def test_what_is_only_read_forgets_sooner() -> None:
    slow, reading = BatchSize(0.08, 5000, 1000).after(1000, 0.08), BatchSize.reading(0.08).after(200, 0.24)
    for _ in range(5):
        slow, reading = slow.after(slow.rows, slow.rows * 4e-5), reading.after(reading.rows, reading.rows * 6e-4)
    assert slow.rows < 1400
    assert reading.rows > 380


def test_many_pending_rows_after_clean_ones_are_cut_down_before_they_are_written() -> None:
    size = BatchSize(0.08, 5000, 5000, written_s=0.0001)
    assert size.fits(800)
    assert not size.fits(5000)
    assert size.shrunk_for(5000).rows == 800


def test_what_writing_costs_is_tried_with_a_first_batch_although_reading_went_far() -> None:
    size = BatchSize(0.08, 5000, 5000)
    assert size.fits(FIRST_ROWS)
    assert not size.fits(2500)
    assert size.shrunk_for(2500).rows == 5000 * FIRST_ROWS // 2500


def test_a_few_written_rows_say_nothing_of_the_cost() -> None:
    assert BatchSize(0.08, 5000, 500).wrote(3, 0.02).written_s is None
    assert BatchSize(0.08, 5000, 500).wrote(100, 0.02).written_s == pytest.approx(0.0002)


def test_what_may_be_tried_again_is_tried_a_bounded_number_of_times() -> None:
    waits: list[tuple[float, str]] = []

    def ask() -> int:
        raise ServerError(1205, "Lock wait timeout exceeded")

    with pytest.raises(ServerError):
        persist(ask, BACKOFF, lambda seconds, reason: waits.append((round(seconds, 3), reason)))
    assert waits == [(0.1, "1205"), (0.2, "1205"), (0.4, "1205")]


def test_what_cannot_be_mended_is_not_tried_again() -> None:
    def ask() -> int:
        raise ServerError(1054, "Unknown column")

    with pytest.raises(ServerError):
        persist(ask, BACKOFF, lambda *_: pytest.fail("it waited"))


def test_a_server_that_comes_back_is_asked_again() -> None:
    answers = [ServerUnreachable("gone", "", ""), ServerError(2013, "lost"), None]

    def ask() -> str:
        error = answers.pop(0)
        if error is not None:
            raise error
        return "here"

    assert persist(ask, BACKOFF, lambda *_: None) == "here"


class Told:
    """Answers from a list, the last one for ever."""

    epoch = 3

    def __init__(self, *answers: Signal) -> None:
        self.answers = list(answers)
        self.seen: list[Progress] = []

    def __call__(self, progress: Progress) -> Signal:
        self.seen.append(progress)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_hold_waits_longer_each_time_in_proportion_to_the_batch_and_is_summed_by_cause() -> None:
    hold = Signal(SignalKind.HOLD, "replication-lag 7.2s > 5.0s on replica-2")
    clock, beat = HandClock(), Told(hold, hold, hold, GO)
    listening = Listening(beat, clock)
    listening.worked(100, 0.1)
    assert listening.go_on() is GO
    assert listening.throttled_s == pytest.approx(0.1 + 0.15 + 0.225)
    listening.go_on()
    assert beat.seen[-1].throttled_by == "replication-lag 7.2s > 5.0s on replica-2"
    assert beat.seen[-1].done == 100


def test_b131_the_time_left_is_told_by_the_last_half_minute_not_by_what_was_before() -> None:
    """Case B131. An hour of a throttle, and then ten rows a second: what is left takes as long as that says."""
    clock, beat = HandClock(), Told(GO)
    listening = Listening(beat, clock)
    listening.began("backfill", 0, 1000)
    listening.sleep(3600.0, "replication-lag 7.2 s")
    for _ in range(60):
        clock.sleep(1.0)
        listening.worked(10, 1.0)
        listening.go_on()
    last = beat.seen[-1]
    assert last.rate_per_s == pytest.approx(10.0)
    assert last.eta_s == pytest.approx(40.0)
    listening.sleep(45.0, "replication-lag 7.2 s")
    listening.go_on()
    assert (beat.seen[-1].rate_per_s, beat.seen[-1].eta_s) == (0.0, None)


@pytest.mark.parametrize(("strain", "waits_s"), [(0.0, 0.0), (0.5, 0.0), (0.75, 0.1), (0.9, 0.4), (1.0, 1.0)])
def test_work_slows_down_before_a_limit_is_reached_and_says_for_what(strain: float, waits_s: float) -> None:
    near = Signal(SignalKind.GO, "replication-lag 3.8 s on replica-1", strain)
    clock, beat = HandClock(), Told(near)
    listening = Listening(beat, clock)
    listening.worked(100, 0.1)
    assert listening.go_on() is near
    assert listening.throttled_s == pytest.approx(waits_s)
    listening.go_on()
    assert beat.seen[-1].throttled_by == ("replication-lag 3.8 s on replica-1" if waits_s else "")


def test_a_wait_ends_at_once_when_somebody_asks_for_a_pause() -> None:
    pause = Signal(SignalKind.PAUSE, "asked")
    clock = HandClock()
    assert Listening(Told(GO, pause), clock).wait(60.0, "locked-rows 3") is pause
    assert clock.at == 1001.0


def test_every_signal_that_ends_work_has_its_result() -> None:
    kinds = {SignalKind.PAUSE, SignalKind.ABORT, SignalKind.STOP, SignalKind.BACK}
    got = {kind: stopped(Signal(kind, "why"), "kept", {}).result for kind in kinds}
    assert got[SignalKind.PAUSE] is got[SignalKind.ABORT] is Result.PAUSED
    assert got[SignalKind.STOP] is Result.HELD
    assert got[SignalKind.BACK] is Result.BACK


def test_a_tally_does_not_grow_with_what_it_counts() -> None:
    tally = Tally()
    for n in range(10_000):
        tally.add(f"class-{n}", "m", 1, (str(n),))
    assert len(tally.classes()) < 300
    assert sum(c.rows for c in tally.classes()) == 10_000
    for n in range(100):
        tally.add("class-1", "m", 1, (str(n),))
    assert max(len(c.keys) for c in tally.classes()) == SAMPLES


def test_values_are_counted_in_bounded_space() -> None:
    tally = ValueTally()
    for n in range(10_000):
        tally.add("m", str(n).encode(), "unmapped", 1)
    assert len(tally.counts()) < 60
    assert sum(c.rows for c in tally.counts()) == 10_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (b"done", "'done'"),
        (b"", "''"),
        (b"done ", "'done ' (0x646f6e6520)"),
        ("d​one".encode(), "'d\\u200bone' (0x64e2808b6f6e65)"),
        (b"\xff\xfe", "0xfffe"),
    ],
)
def test_nothing_in_a_value_stays_invisible(value: object, text: str) -> None:
    assert shown(value) == text


def test_b143_the_text_of_an_error_is_kept_printable_and_bounded_and_decides_nothing() -> None:
    """Case B143. Bytes that are no text, what a terminal would obey, half a surrogate, and far too much of it."""
    error = ServerError(1205, "ge\x1b[31m\n\udcff\x00 ÿ " + "Wartezeit überschritten " * 100)
    assert error.text.startswith(r"ge\x1b[31m\n\udcff\x00 ÿ Wartezeit")
    assert error.text.isprintable()
    assert (len(error.text), error.text[-1]) == (512, "…")
    assert str(error) == f"1205 {error.text}"
    assert error.cure is ServerError(1205, "Lock wait timeout exceeded").cure


@pytest.mark.parametrize(
    ("number", "text", "told"),
    [
        (1062, "Duplicate entry 'ann@x.org' for key 'orders.mail'", "Duplicate entry … for key 'orders.mail'"),
        (1062, "Duplicate entry 'a' for key 'b' for key 't.u'", "Duplicate entry … for key 't.u'"),
        (
            1366,
            "Incorrect integer value: '4711' for column 'v' at row 1",
            "Incorrect integer value … for column 'v' at row 1",
        ),
        (1292, "Truncated incorrect DOUBLE value: 'secret'", "Truncated incorrect DOUBLE value: …"),
        (1406, "Data too long for column 'v' at row 1", "Data too long for column 'v' at row 1"),
    ],
)
def test_an_error_is_told_without_values_of_the_row(number: int, text: str, told: str) -> None:
    assert ServerError(number, text).without_values == told


@pytest.mark.parametrize("number", [1153, 1180, 1197, 3100])
def test_a_transaction_that_is_too_large_for_a_cluster_or_a_log_becomes_smaller(number: int) -> None:
    assert ServerError(number, "too large").cure is Cure.SMALLER


def test_only_an_error_that_comes_again_and_that_a_row_makes_is_a_row_s_fault() -> None:
    assert all(ServerError(n, "").is_of_a_row for n in (1048, 1062, 1264, 1366, 1406, 1644, 1690, 3819))
    assert not any(ServerError(n, "").is_of_a_row for n in (3, 1030, 1114, 1142, 1146, 1205, 1213, 1290, 1449, 2013))


def test_room_for_others_makes_the_next_batch_shorter_at_once_and_no_longer_by_itself() -> None:
    size = BatchSize(0.1, 5000, 1000, row_s=0.0001)
    assert size.sharing(0.25).rows == 250
    assert size.sharing(0.25).sharing(1.0).rows == 250
    assert size.sharing(1.0).rows == 1000
    assert BatchSize(0.08, 5000, 20).after(20, 0.08).sharing(0.25).rows == 20, "smaller ones would be only more"


def test_a_batch_that_makes_room_keeps_its_shorter_time_until_there_is_more_again() -> None:
    size = BatchSize(0.1, 5000, 1000, row_s=0.0001).sharing(0.25)
    for _ in range(20):
        size = size.after(size.rows, size.rows * 1e-4)
    assert size.rows == 250
    size = size.sharing(1.0)
    for _ in range(20):
        size = size.after(size.rows, size.rows * 1e-4)
    assert size.rows == 1000


def test_processors_are_counted_from_their_ranges() -> None:
    told = {"0-1": 2, "0": 1, "0-3,8": 5, b"0-63": 64, "": 0, None: 0}
    assert {ranges: _processors(ranges) for ranges in told} == told
