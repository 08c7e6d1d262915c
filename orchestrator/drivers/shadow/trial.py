"""The trial of the mirror, before its first trigger: on scratch copies, the same statements without it and with it.

What the application would notice refuses shadow-write, with statement and value. Values that go nowhere are told with
the mapping that would carry them, and what a statement costs with and without the mirror is measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from tempfile import TemporaryFile

from orchestrator.model.contract import Column
from orchestrator.model.outcome import Outcome, Progress, Result, Seen, goes_on, stopped_by
from orchestrator.model.step import TryMirror
from orchestrator.model.types import Family
from orchestrator.mysql.errno import ServerError
from orchestrator.mysql.family_copy import family_copy, lay_out, remove_family_copy
from orchestrator.mysql.mirror_trial import MirrorTrial, client_settings, their_triggers, trigger_text
from orchestrator.mysql.noticed import Difference, Run, Setting, differences
from orchestrator.mysql.relation import Relation, load_relation
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.site import Site
from orchestrator.mysql.sql.family_copy import drop_schema
from orchestrator.mysql.sql.mirror_trial import LOADED
from orchestrator.mysql.told import told
from orchestrator.ports import Beat

_MOST_SHOWN = 5
_BEAT_EVERY = 50


class MirrorTrialDriver:
    """Driver of TryMirror. Writes only to the rollout's scratch schema, which is gone afterwards."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def describe(self, step: TryMirror) -> Sequence[str]:
        """The statements that make the copies and the triggers; what is tried on them is counted when it ran."""
        try:
            with closing(self._site.connect("look")) as session:
                here = lay_out(self._site, session, step.family)
                relation = self._relation(session, step)
        except ServerError as error:
            raise told(error, "while the trial was written out") from error
        mirrors = (trigger_text(relation, here.of(step.table), event, here.tag) for event in ("update", "insert"))
        return (
            *here.statements,
            *(text for _, text in their_triggers(here)[0]),
            *mirrors,
            "-- then every kind of statement with the edges of each mapped column, without those two and with them",
            drop_schema(here.schema, here.tag),
        )

    def apply(self, step: TryMirror, beat: Beat) -> Outcome:
        """DONE when no statement shows a difference; FAILED with statement and value else."""
        try:
            return self._tried(step, beat)
        except ServerError as error:
            raise told(error, "while the mirror was tried on scratch copies") from error

    def observe(self, step: TryMirror, beat: Beat) -> Seen:
        """A trial leaves nothing; what a crash left of it is removed here."""
        remove_family_copy(self._site)
        return Seen.ABSENT

    def abandon(self, step: TryMirror, beat: Beat) -> Outcome:
        remove_family_copy(self._site)
        return Outcome(Result.DONE, "the scratch copies are gone")

    def _relation(self, session: Session, step: TryMirror) -> Relation:
        shape = read_shape(session, step.table)
        return Relation((), ()) if shape is None else load_relation(session, self._site.runbook.contract, shape)

    def _tried(self, step: TryMirror, beat: Beat) -> Outcome:
        # A file without a name of its own: nothing is left of it, however we die.
        with TemporaryFile("w", encoding="utf-8") as loads:
            loads.writelines(f"{number}\n" for number in LOADED)
            loads.flush()
            return self._both(step, beat, f"/dev/fd/{loads.fileno()}")

    def _both(self, step: TryMirror, beat: Beat, loads: str) -> Outcome:
        contract, runs, listening = self._site.runbook.contract, list[Run](), _Listening(beat)
        for mirrored in (False, True):
            with family_copy(self._site, step.family, lambda: listening(0), sends=loads) as (session, here):
                settings = self._same(runs[0]) if runs else client_settings(session)
                relation = self._relation(session, step)
                if unshown := _unshown(relation):
                    return unshown
                trial = MirrorTrial(session, here, contract, relation, mirrored=mirrored, loads=loads)
                run = trial.run(settings, listening)
            if run is None:
                return stopped_by(listening.last)
            runs.append(run)
        found = differences(runs[0], runs[1], relation, trial.columns)
        return _harmful(found) if found else _harmless(runs[0], runs[1], relation)

    @staticmethod
    def _same(run: Run) -> Sequence[Setting]:
        """Clients come and go: both runs are under the settings of the first."""
        return tuple(dict.fromkeys(setting for setting, _ in run.ran))


def _unshown(relation: Relation) -> Outcome | None:
    """The server shows a trigger over a name with a backtick as another text (the name's end twice), and keeps none
    with other letters beside it (3507): nobody could see whether the mirror stands."""
    rules = [m.forward for m in relation.mappings] + [p.backward for p in relation.pairs]
    names = sorted({c.name for rule in rules for c in (rule.target, *rule.columns) if "`" in c.name})
    if not names:
        return None
    seen = f"the server does not show a trigger over {names[0]!r} as it was made"
    return Outcome(Result.FAILED, seen, "mapped columns without a backtick in their names", "say driver: flag")


class _Listening:
    """Beats every so many statements; ``last`` is what was heard."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        self.last = beat(Progress(unit="statements", note="tries the mirror on scratch copies"))

    def __call__(self, done: int) -> bool:
        if done % _BEAT_EVERY == 0:
            self.last = self._beat(Progress(done, 0, "statements", note="tries the mirror on scratch copies"))
        return goes_on(self.last)


def _harmful(found: Sequence[Difference]) -> Outcome:
    shown = "; ".join(f"{d.what}: {d.how}" for d in found[:_MOST_SHOWN])
    more = f"; and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    return Outcome(
        Result.FAILED,
        f"the application would notice the mirror: {shown}{more}",
        "the same errors, counts, insert ids and own values with the mirror as without it",
        "change the mapping so that it leaves that statement alone, then the same command again",
        evidence=tuple((d.what, d.setting.sql_mode, d.setting.time_zone, d.how) for d in found[:50]),
    )


def _harmless(without: Run, with_: Run, relation: Relation) -> Outcome:
    settings = dict.fromkeys(setting for setting, _ in with_.ran)
    paces = [f"{n.replace('_', ' ')} {without.pace_us[n]:.0f} → {us:.0f} µs" for n, us in with_.pace_us.items()]
    modes = ", ".join(f"{s.sql_mode or 'no mode'} at {s.time_zone}" for s in settings)
    note = f"{len(with_.ran)} statements tried without and with the mirror under {len(settings)} client settings: no "
    note += f"difference; one statement costs: {', '.join(paces) or 'not measured'}"
    warned = [*_unfit(with_, relation), *dict.fromkeys(with_.left_out)]
    if warned:
        note += f"; {'; '.join(warned[:_MOST_SHOWN])}"
    figures = {f"{n}_without_us": us for n, us in without.pace_us.items()}
    figures |= {f"{n}_with_us": us for n, us in with_.pace_us.items()}
    figures |= {"statements": float(len(with_.ran)), "unfit": float(len(with_.unfit))}
    return Outcome(Result.DONE, note, figures=figures, evidence=((modes,), *((w,) for w in warned)))


def _unfit(run: Run, relation: Relation) -> list[str]:
    """For each pair one statement whose value the new column cannot hold, and the expression that it could."""
    found = []
    for pair in relation.pairs:
        tried = [what for name, what in run.unfit if name == pair.name]
        if tried:
            found.append(
                f"{pair.name}: after {tried[0]} the new column stays as it was (it does not fit {pair.new.type}, and "
                f"{len(tried)} such values were tried); {_advice(pair.old, pair.new)} would carry it"
            )
    return found


def _advice(old: Column, new: Column) -> str:
    """A mapping that carries every value, at a loss."""
    match new.type.family:
        case Family.TEXT if new.type.length is not None and old.type.family is Family.TEXT:
            return f'forward: {{sql: "LEFT({old.name}, {new.type.length})"}}, or a wider {new.name},'
        case Family.INTEGER if old.type.family in (Family.INTEGER, Family.DECIMAL, Family.FLOAT):
            low, high = new.type.integer_range
            return f'forward: {{sql: "LEAST(GREATEST({old.name}, {low}), {high})"}}, or a wider {new.name},'
        case Family.TEMPORAL if old.type.family is Family.TEMPORAL:
            return f"a {new.name} with as many digits of a second as {old.name}, or an expression that cuts them,"
        case _:
            return f"a wider {new.name}, or an expression that says what becomes of such a value,"
