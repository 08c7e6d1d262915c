"""Any order of moves forward and back, pauses and aborts among them, under two applications: the ledger is exact."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from orchestrator.app.wiring import App
from orchestrator.engine import Paused
from orchestrator.errors import Held, PhaseFailed
from orchestrator.model.facts import Need
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import FORWARD, Ask, Record
from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.traffic import Traffic
from tests.support.command import Ground, ground
from tests.support.state import settings_of
from tests.support.within import opened

pytestmark = [pytest.mark.walk, pytest.mark.timeout(1800)]
MIRRORED = "shadow-write"


class Walker:
    """Types one command after the other. ``told``: what became of each."""

    def __init__(self, app: App, here: Ground, traffic: Traffic, rng: Random) -> None:
        self._app, self._here, self._traffic, self._rng = app, here, traffic, rng
        self._ask: Ask | None = None
        self._listens = 0
        self.told: Counter[str] = Counter()

    def interrupted(self) -> Ask | None:
        """What a signal asks for, at one of the moments in which a command listens."""
        self._listens -= 1
        return self._ask if self._listens < 0 else None

    def move(self) -> None:
        record = self._app.store.load(self._here.runbook.id)
        done = record.done if record is not None else ()
        # Not before there is a mirror to lose, else it would seldom come so far.
        if record is not None and len(done) >= 3 and (len(done) == len(FORWARD) or self._rng.random() < 0.4):
            self._back(record, self._rng.choice(["", *done[:-1]]))
        else:
            self._on(interrupted=self._rng.random() < 0.25)

    def _on(self, *, interrupted: bool) -> None:
        if interrupted:
            self._ask, self._listens = self._rng.choice([Ask.PAUSE, Ask.ABORT]), self._rng.randrange(60)
        try:
            ended = self._app.commands.next(None)
            self.told[ended if isinstance(ended, str) else f"{ended.record.phase} done"] += 1
        except Paused:
            self.told["paused"] += 1
        except PhaseFailed as failed:
            self.told["aborted" if "was aborted" in failed.seen else f"FAILED: {failed.seen}"] += 1
        except Held as held:
            self.told[f"held: {held.seen[:60]}"] += 1
        self._ask = None

    def _accepted(self) -> tuple[tuple[str, int], ...]:
        meter = self._app.observer.look(frozenset({Need.METER})).meter
        classes = meter.value.classes if meter is not None and meter.value is not None else ()
        return tuple((c.name, c.rows + 5_000) for c in classes)

    def _back(self, record: Record, target: str) -> None:
        mirror_goes = FORWARD.index(target) < FORWARD.index(MIRRORED) if target else True
        for last in (False, False, True):
            try:
                self._app.commands.rollback(target, self._accepted())
                break
            except Held as held:
                # What the new application wrote until the flags were down was on no meter yet.
                if last or "--accept-loss" not in held.next:
                    raise
                self.told["a loss that nobody had accepted"] += 1
        if mirror_goes:
            drops = not target and self._here.runbook.phases.rollback_ddl is RollbackDdl.DROP
            self._traffic.ledger.old_is_truth(dropped=drops)
        self.told[f"back to {target or 'the beginning'}"] += 1


# What the everyday run holds of this is in test_walks: there, back and there again.
@pytest.mark.slow
@pytest.mark.parametrize("moves", [6, 200])
def test_a_random_walk_loses_no_acknowledged_write(moves: int, pair: Pair, tmp_path: Path) -> None:
    with ground(pair, "orders", tmp_path, rows=200, wait_s=0.3) as here:
        traffic = Traffic(settings_of(pair.primary), here.runbook, here.shape, seed=moves, pace=60)
        walkers: list[Walker] = []
        try:
            traffic.start_old()
            traffic.start_new()
            with opened(here.runbook, pair.primary, lambda: walkers[0].interrupted() if walkers else None) as app:
                walkers.append(walker := Walker(app, here, traffic, Random(moves)))
                for _ in range(moves):
                    walker.move()
                while not isinstance(app.commands.ready(None), str):
                    app.commands.next(None)
            traffic.stop()
            differences = here.lost(traffic)
            stats = traffic.stats()
        finally:
            traffic.stop()
    assert differences == [], walker.told
    assert [word for word in walker.told if word.startswith("FAILED")] == []
    assert stats.errors == 0, stats.error_texts
    assert stats.writes > 50
    assert stats.new_column_writes > 0
    print(f"{moves} moves, {stats.writes} writes: {dict(walker.told)}")
