"""The half of a runbook that may change while a rollout lives: phases, checks, replicas, gates, waivers, notify."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from orchestrator.runbook.forms import (
    ApplicationsForm,
    ContractForm,
    Form,
    InvariantForm,
    MappingForm,
    Name,
    TableForm,
)
from orchestrator.runbook.forms_reads import GateForm, PrometheusForm, ReadSwitchForm
from orchestrator.runbook.forms_units import Duration, WindowText, duration


def _shape(value: object) -> str:
    if isinstance(value, str):
        return "<word>"
    return "<list>" if isinstance(value, list) else "<form>"


class GhostForm(Form):
    chunk: int = Field(default=1_000, ge=10, le=100_000, description="Rows that are copied at a time.")
    cut_over_tries: int = Field(
        default=10, ge=1, le=60, description="How often the swap is tried before the phase pauses."
    )
    old_table: Literal["keep", "drop"] = Field(
        default="keep", description="What becomes of the table that was swapped out, with all its old data."
    )


class DdlForm(Form):
    engine: Literal["auto", "native", "gh-ost"] = Field(
        default="auto",
        description="native: INSTANT, else INPLACE with LOCK=NONE. gh-ost: a copy of the table. auto: native, and "
        "gh-ost for what would rebuild or copy.",
    )
    window: WindowText | None = Field(
        default=None,
        description="Hours in which exclusive locks and gh-ost's cut-over may come, as 01:00-05:00 Europe/Berlin.",
    )
    final_lock_budget: Duration = duration(2.0, "Longest wait that the last step of an index build may cause.")
    index_tries: int = Field(
        default=10, ge=1, le=100, description="How often that last step is tried before the phase pauses."
    )
    gh_ost: GhostForm = Field(default_factory=GhostForm, description="How gh-ost works where it is the engine.")


class BackfillForm(Form):
    target_time: Duration = duration(0.08, "How long one batch should take.")
    max_batch: int = Field(default=5000, ge=1, le=100_000, description="Most rows in one batch.")
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="How many fill at a time; auto: two, and more while that raises the rate and replicas keep up.",
    )


class ShadowWriteForm(Form):
    driver: Literal["triggers", "flag"] = Field(
        default="triggers",
        description="Who keeps both columns in step. triggers: two of ours. flag: the applications, which write both.",
    )
    soak: Duration = duration(30.0, "How long both columns move together under watch before drift must be 0.")


class VerifyForm(Form):
    soak: Duration = duration(600.0, "How long the end state is watched before the newest rows are compared again.")


class RollbackForm(Form):
    ddl: Literal["keep", "drop"] = Field(
        default="keep", description="Whether new columns and indexes stay when ddl is undone."
    )
    quiet: Duration = duration(60.0, "How long no statement may name the new columns before the mirror goes.")


class FinishForm(Form):
    quiet: Duration = duration(600.0, "How long no statement may name old columns or the flag before the end.")


class PhasesForm(Form):
    ddl: DdlForm = Field(default_factory=DdlForm, description="The expand ALTER.")
    backfill: BackfillForm = Field(default_factory=BackfillForm, description="Filling new columns.")
    shadow_write: ShadowWriteForm = Field(default_factory=ShadowWriteForm, description="Both columns move together.")
    read_switch: ReadSwitchForm = Field(default_factory=ReadSwitchForm, description="Readers move by percent.")
    verify: VerifyForm = Field(default_factory=VerifyForm, description="Every row is proven.")
    rollback: RollbackForm = Field(default_factory=RollbackForm, description="The way back.")
    finish: FinishForm = Field(default_factory=FinishForm, description="The mirror goes, the rollout is closed.")


class LagForm(Form):
    max: Duration = Field(description="Worst lag of any replica that counts.")


class AgeForm(Form):
    max_age: Duration = Field(description="Oldest that may be met.")


class KillForm(Form):
    older_than: Duration = Field(description="Only sessions that have blocked for longer are killed.")
    except_: list[str] = Field(default_factory=list, alias="except", description="Users that are never killed.")


class LocksForm(Form):
    max_age: Duration = duration(5.0, "Oldest holder that may be met.")
    kill: KillForm | None = Field(
        default=None, description="Whether sessions that block us are killed. Left out: nobody is."
    )


class CountForm(Form):
    max: int = Field(ge=1, le=10**12, description="Greatest number that may be met.")


class ThreadsForm(Form):
    max: int = Field(default=200, ge=1, le=10**12, description="Greatest number that may be met.")
    rest_above: int | None = Field(
        default=None,
        ge=0,
        le=10**12,
        description="Statements of others under way, beyond which work on rows rests between batches; default 2.5 for "
        "each processor of the server.",
    )


class DiskSourceForm(Form):
    command: str | None = Field(default=None, min_length=1, description="A command that prints the free bytes.")
    none: str | None = Field(default=None, min_length=1, description="Nobody can say; the reason why that is accepted.")


DiskFrom = Annotated[
    Annotated[Literal["local"], Tag("<word>")] | Annotated[DiskSourceForm, Tag("<form>")], Discriminator(_shape)
]


class DiskForm(Form):
    from_: DiskFrom = Field(
        default="local",
        alias="from",
        description="local (the server is on this machine), {command: …} or {none: reason}.",
    )


class ChecksForm(Form):
    replication_lag: LagForm | None = Field(default=None, description="Lag of the worst replica; default 5s.")
    metadata_locks: LocksForm | None = Field(
        default=None, description="Age of a holder of a metadata lock of the family; default 5s."
    )
    long_transactions: AgeForm | None = Field(
        default=None, description="Age of the oldest open transaction; default 30s."
    )
    threads_running: ThreadsForm | None = Field(default=None, description="Active threads of the server.")
    history_list: CountForm | None = Field(
        default=None, description="Length of InnoDB's history list; default 1000000."
    )
    disk: DiskForm | None = Field(default=None, description="Where free disk space is read.")
    throttle: list[str] = Field(
        default_factory=list, description="Gates that hold work on rows while their last sample is over their max."
    )
    max_wait: Duration = duration(600.0, "How long a check may hold before the phase pauses with exit 75.")
    stall_budget: Duration = duration(0.25, "Longest wait of one statement of the application because of us.")


class NoReplicasForm(Form):
    none: str | None = Field(
        default=None, min_length=1, description="The reason why there are none, or why none counts."
    )
    delayed: list[str] = Field(
        default_factory=list, description="Replicas that lag on purpose: watched, not waited for."
    )


Replicas = Annotated[
    Annotated[Literal["discover"], Tag("<word>")]
    | Annotated[list[Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$")]], Tag("<list>"), Field(min_length=1)]
    | Annotated[NoReplicasForm, Tag("<form>")],
    Discriminator(_shape),
]


class WaiverForm(Form):
    rule: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="The rule that is waived.")
    reason: str = Field(min_length=1, description="Why it may be broken here.")
    evidence: str = Field(default="", description="What shows that it is harmless here.")
    until: str = Field(
        default="", pattern=r"^$|^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="Last day on which the waiver counts."
    )


class AdrForm(Form):
    title: str = Field(default="", description="Title of the decision record. Left out: rollout and table.")
    model: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,63}$")] | None = Field(
        default=None, description="What the application's model is called. Left out: as the table."
    )
    keeps: list[Name] | None = Field(
        default=None,
        description="Columns that stood before and are the model's too. Left out: all that nothing takes over from.",
    )
    zh: dict[str, str] = Field(
        default_factory=dict, description="Texts of this file for people (why, serves, writer …), each in Chinese."
    )


class CommandForm(Form):
    command: str = Field(min_length=1, description="Called with one JSON event on hold, rollback and finish.")


class RunbookForm(Form):
    """One change of one table, walked through six stages by `rollout`."""

    api_version: Literal["rollout/v1"] = Field(alias="apiVersion", description="The form of this file.")
    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,39}$", description="Name of the rollout: lower case, at most 40 signs."
    )
    why: str = Field(default="", description="Why the change is made.")
    owner: str = Field(default="", description="Who answers for it.")
    table: TableForm = Field(description="The table that is changed.")
    contract: ContractForm = Field(description="Everything that is added; frozen when the rollout starts.")
    mappings: list[MappingForm] = Field(default_factory=list, description="How old and new columns correspond.")
    invariants: list[InvariantForm] = Field(default_factory=list, description="Conditions that verify proves.")
    applications: ApplicationsForm = Field(default_factory=ApplicationsForm, description="What each version says.")
    phases: PhasesForm = Field(default_factory=PhasesForm, description="Settings of the stages.")
    checks: ChecksForm = Field(default_factory=ChecksForm, description="Limits of the checks.")
    replicas: Replicas = Field(
        default="discover", description="discover, [host:port, …], {none: reason} or {delayed: […]}."
    )
    gates: list[GateForm] = Field(default_factory=list, description="Gates of the application beside drift.")
    prometheus: PrometheusForm = Field(
        default_factory=PrometheusForm, description="Where Prometheus is; the environment may say it as well."
    )
    waivers: list[WaiverForm] = Field(default_factory=list, description="Rules that are knowingly broken.")
    notify: CommandForm | None = Field(default=None, description="Who is told.")
    adr: AdrForm = Field(default_factory=AdrForm, description="Words for the decision record (`rollout adr`).")
