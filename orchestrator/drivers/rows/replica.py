"""``rollout verify --on``: the rows of a replica by the relation, then every byte of them against the primary's.

Nothing is looked at before the replica has what the primary had, so a lagging one is never taken for a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from msgspec.structs import replace

from orchestrator.drivers.rows.compare import CompareDriver, Ended, heed
from orchestrator.drivers.rows.listening import Listening
from orchestrator.drivers.rows.table import live_shape
from orchestrator.model.outcome import Outcome, Result
from orchestrator.model.step import Compare, step_key
from orchestrator.mysql.checksum import Difference, Side, differing, digests, side
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.replica import CatchUp, replica_site
from orchestrator.mysql.scan import patience
from orchestrator.mysql.session import Session
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.bounds import show
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

_ANSWER_S = 60.0
_SAMPLES = 10


class ReplicaCompareDriver:
    """Writes nothing. ``named`` is the replica, as ``rollout verify --on`` takes it."""

    def __init__(self, site: Site, named: str) -> None:
        self._site = site
        self._named = named

    def apply(self, step: Compare, beat: Beat) -> Outcome:
        """As CompareDriver.apply, with the classes ``replica-lacks``, ``replica-alone`` and ``replica-differs``.

        Raises UsageError (no such replica), Held (it does not catch up), ServerUnreachable."""
        listening = Listening(beat, self._site.clock)
        listening.note = f"verify on {self._named}"
        with closing(self._site.connect("verify", _ANSWER_S)) as primary:
            try:
                place = replica_site(self._site, primary, self._named)
                with closing(place.connect("verify", _ANSWER_S)) as replica:
                    catch_up = self._catch_up(primary, replica, listening)
                    catch_up.wait()
                    found = CompareDriver(place).apply(step, beat)
                    if found.result in (Result.PAUSED, Result.HELD):
                        return found
                    return self._against_primary(step, found, catch_up, listening)
            except Ended as ended:
                return ended.outcome
            except ServerError as error:
                raise told(error, f"comparing {step.table} on {self._named}") from error

    def _catch_up(self, primary: Session, replica: Session, listening: Listening) -> CatchUp:
        limit_s = self._site.runbook.limits.max_wait_s
        return CatchUp(primary, replica, lambda: heed(listening.go_on(), listening), limit_s)

    def _against_primary(self, step: Compare, found: Outcome, catch_up: CatchUp, listening: Listening) -> Outcome:
        here = self._side(catch_up.primary, step)
        there = self._side(catch_up.replica, step, tuple(c.name for c in here.columns))
        apart: list[Difference] = []
        rows = 0
        for span, known in digests(here, step.target_time_s):
            listening.worked(known.rows, step.target_time_s)
            heed(listening.go_on(), listening)
            rows += known.rows
            apart += differing(here, there, catch_up.wait, span, known)
        return _joined(found, rows, [(_class(d), show(here.reader.space, d.key)) for d in apart], self._named)

    def _side(self, session: Session, step: Compare, names: Sequence[str] = ()) -> Side:
        shape = live_shape(session, step.table, self._site.runbook.contract.key)
        tag, pace = self._site.tag(step_key(step)), self._site.pace()
        return side(session, shape, patience(self._site.clock), names, tag, pace)


def _class(found: Difference) -> str:
    if found.here and found.there:
        return "replica-differs"
    return "replica-lacks" if found.here else "replica-alone"


def _joined(found: Outcome, rows: int, apart: Sequence[tuple[str, str]], named: str) -> Outcome:
    """Both proofs as one outcome; a row that is wrong in both is counted in both."""
    if not apart:
        return replace(found, note=f"{found.note}; {rows} rows are on {named} as they are on the primary")
    classes = [(name, [key for of, key in apart if of == name]) for name in sorted({name for name, _ in apart})]
    told_of = "; ".join(f"{name}: {len(keys)} (key {', '.join(keys[:3])})" for name, keys in classes)
    return replace(
        found,
        result=Result.FAILED if found.result is Result.DONE else found.result,
        note=f"{len(apart)} rows are not on {named} as they are on the primary: {told_of}; {found.note}",
        expected="a replica that holds what the primary holds",
        next=f"rebuild {named}, or mend its rows; rollout cannot",
        figures=found.figures | {"mismatches": found.figures.get("mismatches", 0.0) + len(apart)},
        evidence=(*found.evidence, *((n, "", str(len(keys)), *keys[:_SAMPLES]) for n, keys in classes)),
    )
