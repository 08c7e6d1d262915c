"""From forms to the settings that may change while a rollout lives, with the rules between them."""

from __future__ import annotations

import shlex
from datetime import date
from itertools import pairwise

from orchestrator.model.blockers import KillPolicy
from orchestrator.model.contract import Contract
from orchestrator.model.runbook import (
    OWN_GATES,
    DecisionSettings,
    DiskSource,
    GateSpec,
    GhostSettings,
    Limits,
    PhaseSettings,
    PrometheusSource,
    ReaderSettings,
    ReplicaPolicy,
    RollbackDdl,
    Waiver,
)
from orchestrator.runbook import forms_reads
from orchestrator.runbook import forms_settings as forms
from orchestrator.runbook.build import Builder
from orchestrator.runbook.tree import Path
from orchestrator.runbook.units import show_duration

LEAST_TTL_S = 3.0
TTL_POLLS = 3
# It is called twice for each move of readers, and no beat comes meanwhile.
MOST_PROGRAM_S = 10.0


def phase_settings(form: forms.PhasesForm, build: Builder) -> PhaseSettings:
    """The ``phases:`` part. Durations in seconds."""
    reads = form.read_switch
    _check_ramp(reads, build)
    for path, seconds in (
        (("phases", "ddl", "final_lock_budget"), form.ddl.final_lock_budget),
        (("phases", "backfill", "target_time"), form.backfill.target_time),
        (("phases", "read_switch", "poll"), reads.poll),
    ):
        if seconds <= 0:
            build.note(path, f"{path[-1]} is 0", "more than 0", "write a duration such as 100ms")
    return PhaseSettings(
        reader=_reader(reads, build),
        engine=form.ddl.engine,
        window=form.ddl.window,
        final_lock_budget_s=form.ddl.final_lock_budget,
        index_tries=form.ddl.index_tries,
        gh_ost=GhostSettings(
            chunk_rows=form.ddl.gh_ost.chunk,
            cut_over_tries=form.ddl.gh_ost.cut_over_tries,
            drop_old_table=form.ddl.gh_ost.old_table == "drop",
        ),
        target_time_s=form.backfill.target_time,
        max_batch_rows=form.backfill.max_batch,
        workers=0 if form.backfill.workers == "auto" else form.backfill.workers,
        shadow=form.shadow_write.driver,
        soak_s=form.shadow_write.soak,
        percents=tuple(reads.percent),
        reads_window=reads.window,
        hold_s=reads.hold,
        ttl_s=reads.ttl,
        stays=reads.on_watcher_loss == "stay",
        poll_s=reads.poll,
        gates=tuple(reads.gates),
        verify_soak_s=form.verify.soak,
        rollback_ddl=RollbackDdl(form.rollback.ddl),
        rollback_quiet_s=form.rollback.quiet,
        finish_quiet_s=form.finish.quiet,
    )


def _reader(form: forms_reads.ReadSwitchForm, build: Builder) -> ReaderSettings:
    """Who shows the flags to applications; only the flag table takes readers back by itself."""
    path: Path = ("phases", "read_switch")
    wanted = {"flagd": form.flagd, "command": form.command}
    for name, part in wanted.items():
        if (part is not None) != (form.driver == name):
            seen = f"driver {form.driver} {'without' if part is None else 'with'} a part {name}:"
            build.note(path, seen, f"driver: {name} with its part, or neither", "write both, or delete the one")
    if form.driver != "flag_table" and form.on_watcher_loss != "stay":
        seen = f"driver {form.driver} with on_watcher_loss: back"
        why = "write stay when that is accepted, or driver: flag_table, which takes readers back by itself"
        build.note(path, seen, "on_watcher_loss: stay, for nothing else can be promised", why)
    if form.command is not None:
        if not _splits(form.command.program) or not 0 < form.command.timeout <= MOST_PROGRAM_S:
            where = (*path, "command")
            needed = f"words as in a shell, and a time of up to {MOST_PROGRAM_S:g} s"
            build.note(where, "the program cannot be called so", needed, "correct it")
        return ReaderSettings("command", form.command.program, form.command.timeout)
    return ReaderSettings("flagd", form.flagd.file) if form.flagd is not None else ReaderSettings()


def _splits(text: str) -> bool:
    try:
        return bool(shlex.split(text))
    except ValueError:
        return False


def _check_ramp(form: forms_reads.ReadSwitchForm, build: Builder) -> None:
    path: Path = ("phases", "read_switch", "percent")
    steps = form.percent
    if any(not 1 <= p <= 100 for p in steps):
        build.note(
            path, f"percent {steps} leaves 1 to 100", "steps from 1 to 100", "0 % is where the ramp begins by itself"
        )
    elif any(b <= a for a, b in pairwise(steps)):
        build.note(path, f"percent {steps} does not rise", "steps that rise", "sort them, each once")
    elif steps[-1] != 100:
        build.note(path, f"percent ends at {steps[-1]}", "100 as the last step", "add 100")
    least = max(LEAST_TTL_S, TTL_POLLS * form.poll)
    if form.ttl < least:
        seen = f"ttl {show_duration(form.ttl)} is shorter than {show_duration(least)}"
        expected = f"at least {TTL_POLLS} polls and {show_duration(LEAST_TTL_S)}"
        build.note(("phases", "read_switch", "ttl"), seen, expected, "in production more than a takeover needs: 90s")
    build.once(("phases", "read_switch", "gates"), form.gates, "gate")


def limits(form: forms.ChecksForm, build: Builder) -> Limits:
    """The ``checks:`` part; what is not written keeps the model's value."""
    plain = Limits()
    if not 0.02 <= form.stall_budget <= 10:
        seen = f"stall_budget {show_duration(form.stall_budget)}"
        build.note(("checks", "stall_budget"), seen, "20ms to 10s", "250ms is a good figure")
    return Limits(
        replication_lag_s=form.replication_lag.max if form.replication_lag else plain.replication_lag_s,
        metadata_lock_age_s=form.metadata_locks.max_age if form.metadata_locks else plain.metadata_lock_age_s,
        transaction_age_s=form.long_transactions.max_age if form.long_transactions else plain.transaction_age_s,
        threads_running=form.threads_running.max if form.threads_running else plain.threads_running,
        rest_above=form.threads_running.rest_above if form.threads_running else plain.rest_above,
        history_list=form.history_list.max if form.history_list else plain.history_list,
        disk=_disk(form.disk, build),
        kill=_kill(form.metadata_locks),
        max_wait_s=form.max_wait,
        stall_budget_s=form.stall_budget,
        throttle=tuple(form.throttle),
    )


def _kill(form: forms.LocksForm | None) -> KillPolicy:
    if form is None or form.kill is None:
        return KillPolicy()
    return KillPolicy(form.kill.older_than, tuple(form.kill.except_))


def _disk(form: forms.DiskForm | None, build: Builder) -> DiskSource:
    if form is None or isinstance(form.from_, str):
        return DiskSource()
    source = form.from_
    if (source.command is None) == (source.none is None):
        build.note(
            ("checks", "disk", "from"), "disk.from names no source, or two", "command or none", "write one of them"
        )
    if source.command is not None:
        return DiskSource("command", source.command)
    return DiskSource("none", source.none or "")


def replicas(form: str | list[str] | forms.NoReplicasForm, build: Builder) -> ReplicaPolicy:
    """Which replicas count."""
    if isinstance(form, str):
        return ReplicaPolicy()
    if isinstance(form, list):
        build.once(("replicas",), form, "replica")
        return ReplicaPolicy("list", hosts=tuple(form))
    if (form.none is None) == (not form.delayed):
        build.note(
            ("replicas",), "replicas gives neither a reason nor delayed ones, or both", "one of them", "write one"
        )
    if form.none is not None:
        return ReplicaPolicy("none", reason=form.none)
    return ReplicaPolicy(delayed=tuple(form.delayed))


def gates(form: list[forms_reads.GateForm], wanted: list[str], build: Builder) -> tuple[GateSpec, ...]:
    """Gates beside those that exist by themselves; every gate that read-switch names must be there."""
    build.once(("gates",), (g.name for g in form), "gate")
    known = {*OWN_GATES, *(g.name for g in form)}
    for i, name in enumerate(wanted):
        if name not in known:
            expected = "one of " + ", ".join(sorted(known))
            path: Path = ("phases", "read_switch", "gates", i)
            build.note(
                path, f"read_switch names the gate {name!r}, which is not defined", expected, "define it under gates:"
            )
    return tuple(_gate(g, i, build) for i, g in enumerate(form))


def check_throttle(form: forms.ChecksForm, gates: tuple[GateSpec, ...], build: Builder) -> None:
    """Each name is a gate that one sample can judge: without a baseline."""
    build.once(("checks", "throttle"), form.throttle, "gate")
    fit = {g.name for g in gates if g.max_increase is None}
    for i, name in enumerate(form.throttle):
        if name not in fit:
            known = any(g.name == name for g in gates)
            seen = f"throttle names the gate {name!r}, which " + (
                "is judged by a baseline" if known else "is not there"
            )
            expected = "one of " + ", ".join(sorted(fit)) if fit else "a gate with max"
            build.note(("checks", "throttle", i), seen, expected, "define it under gates: with max")


def _gate(form: forms_reads.GateForm, at: int, build: Builder) -> GateSpec:
    path: Path = ("gates", at)
    if form.name in OWN_GATES:
        own = f"the gate {form.name} exists by itself; delete this one"
        build.note(path, f"a gate named {form.name}", "another name", own)
    asked = {"sql": form.sql, "prometheus": form.prometheus, "command": form.command}
    written = [(kind, text) for kind, text in asked.items() if text is not None]
    if len(written) != 1:
        seen = f"gate {form.name} needs sql, prometheus or command"
        build.note(path, seen, "exactly one of them", "write one, delete the others")
    if (form.sample_size is None) != (form.min_sample_size is None):
        seen = f"gate {form.name} has one of sample_size and min_sample_size without the other"
        build.note(path, seen, "both, or neither", "write both, or delete the one")
    if form.max is not None and form.max_increase is not None:
        build.note(path, f"gate {form.name} has max and max_increase", "exactly one of them", "delete one")
    if form.command is None and form.max is None and form.max_increase is None:
        build.note(path, f"gate {form.name} has no limit", "max or max_increase", "write one of them")
    for name, limit in (("failure_limit", form.failure_limit), ("inconclusive_limit", form.inconclusive_limit)):
        if limit > form.count:
            seen = f"gate {form.name}: {name} {limit} is above count {form.count}"
            build.note(path, seen, f"{name} up to count", f"raise count, or lower {name}")
    if form.interval <= 0 or form.timeout <= 0:
        build.note(path, f"gate {form.name}: interval or timeout is 0", "more than 0", "write a duration such as 1s")
    kind, argument = written[0] if written else ("command", "")
    return GateSpec(
        name=form.name,
        kind=kind,
        argument=argument,
        max=form.max,
        max_increase=form.max_increase,
        interval_s=form.interval,
        count=form.count,
        failure_limit=form.failure_limit,
        inconclusive_limit=form.inconclusive_limit,
        timeout_s=form.timeout,
        sample_size=form.sample_size or "",
        min_sample_size=form.min_sample_size or 0.0,
    )


def prometheus(form: forms_reads.PrometheusForm) -> PrometheusSource:
    """Where Prometheus is asked."""
    return PrometheusSource(form.url.rstrip("/"), form.ca)


def waivers(form: list[forms.WaiverForm], build: Builder) -> tuple[Waiver, ...]:
    """Rules that are knowingly broken, each with its reason."""
    build.once(("waivers",), (w.rule for w in form), "waiver")
    for i, waiver in enumerate(form):
        if waiver.until and not _is_day(waiver.until):
            build.note(
                ("waivers", i, "until"), f"{waiver.until} is no day of the calendar", "YYYY-MM-DD", "correct the day"
            )
    return tuple(Waiver(w.rule, w.reason, w.evidence, w.until) for w in form)


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def decision(form: forms.AdrForm, contract: Contract, build: Builder) -> DecisionSettings:
    """The ``adr:`` part. What it keeps must have stood before."""
    build.once(("adr", "keeps"), form.keeps or (), "kept column")
    stood = {c.name.lower(): c.name for c in contract.before.columns} if contract.before is not None else {}
    for i, name in enumerate(form.keeps or ()):
        if name.lower() not in stood:
            seen = f"{name} did not stand before"
            build.note(("adr", "keeps", i), seen, "one of table.before.columns", "correct the name, or delete it")
    keeps = None if form.keeps is None else tuple(stood.get(n.lower(), n) for n in form.keeps)
    words = (("zh", tuple(form.zh.items())),) if form.zh else ()
    return DecisionSettings(form.title, form.model or "", keeps, words)


def notify(form: forms.CommandForm | None, build: Builder) -> tuple[str, ...]:
    """The command as its words."""
    if form is None:
        return ()
    try:
        return tuple(shlex.split(form.command))
    except ValueError as error:
        build.note(
            ("notify", "command"), f"the command cannot be split: {error}", "words as in a shell", "close the quotes"
        )
        return ()
