"""The half of a runbook that may change while a rollout lives: phases, checks, replicas, gates, waivers, notify."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from orchestrator.model.findings import Wrong
from orchestrator.model.window import Window
from orchestrator.runbook.forms import (
    ApplicationsForm,
    ContractForm,
    Form,
    InvariantForm,
    MappingForm,
    Sql,
    TableForm,
)
from orchestrator.runbook.units import (
    DURATION_PATTERN,
    SHARE_PATTERN,
    WINDOW_PATTERN,
    parse_duration,
    parse_share,
    parse_window,
    show_duration,
)

Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "pattern": DURATION_PATTERN, "examples": ["5s", "200ms", "10m"]}),
]
Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema({"type": "string", "pattern": SHARE_PATTERN, "examples": ["10%"]}),
]


WindowText = Annotated[
    Window,
    BeforeValidator(parse_window),
    WithJsonSchema({"type": "string", "pattern": WINDOW_PATTERN, "examples": ["01:00-05:00 Europe/Berlin"]}),
]


def _duration(default_s: float, description: str) -> Any:
    """A duration with a default, which the schema shows as a person would write it."""
    return Field(default=default_s, description=description, json_schema_extra={"default": show_duration(default_s)})


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Wrong(f"{value!r} is not a number", "a number such as 0 or 2.5", "write the number without quotes")
    return float(value)


Number = Annotated[float, BeforeValidator(_number), WithJsonSchema({"type": "number"})]


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
    final_lock_budget: Duration = _duration(2.0, "Longest wait that the last step of an index build may cause.")
    index_tries: int = Field(
        default=10, ge=1, le=100, description="How often that last step is tried before the phase pauses."
    )
    gh_ost: GhostForm = Field(default_factory=GhostForm, description="How gh-ost works where it is the engine.")


class BackfillForm(Form):
    target_time: Duration = _duration(0.08, "How long one batch should take.")
    max_batch: int = Field(default=5000, ge=1, le=100_000, description="Most rows in one batch.")
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="How many fill at a time; auto: one more while that raises the rate and replicas keep up.",
    )


class ShadowWriteForm(Form):
    driver: Literal["triggers"] = Field(default="triggers", description="Who keeps both columns in step.")
    soak: Duration = _duration(30.0, "How long both columns move together under watch before drift must be 0.")


class ReadSwitchForm(Form):
    driver: Literal["flag_table"] = Field(default="flag_table", description="How applications learn where to read.")
    percent: list[int] = Field(
        default_factory=lambda: [1, 5, 25, 50, 100],
        min_length=1,
        max_length=100,
        description="Steps of the ramp: rising, 1 to 100, ending at 100.",
    )
    hold: Duration = _duration(300.0, "How long each step is watched.")
    ttl: Duration = _duration(90.0, "How long the flags live without a sign of the watcher.")
    poll: Duration = _duration(1.0, "How often applications ask for the flags.")
    gates: list[str] = Field(default_factory=lambda: ["drift"], description="Gates that must pass at each step.")
    on_watcher_loss: Literal["back", "stay"] = Field(
        default="back",
        description="What a lost watcher means. back: the flags expire and readers go back. stay: they stay.",
    )


class VerifyForm(Form):
    soak: Duration = _duration(600.0, "How long the end state is watched before the newest rows are compared again.")


class RollbackForm(Form):
    ddl: Literal["keep", "drop"] = Field(
        default="keep", description="Whether new columns and indexes stay when ddl is undone."
    )
    quiet: Duration = _duration(60.0, "How long no statement may name the new columns before the mirror goes.")


class FinishForm(Form):
    quiet: Duration = _duration(600.0, "How long no statement may name old columns or the flag before the end.")


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
    max_age: Duration = _duration(5.0, "Oldest holder that may be met.")
    kill: KillForm | None = Field(
        default=None, description="Whether sessions that block us are killed. Left out: nobody is."
    )


class CountForm(Form):
    max: int = Field(ge=1, le=10**12, description="Greatest number that may be met.")


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
    threads_running: CountForm | None = Field(default=None, description="Active threads of the server; default 200.")
    history_list: CountForm | None = Field(
        default=None, description="Length of InnoDB's history list; default 1000000."
    )
    disk: DiskForm | None = Field(default=None, description="Where free disk space is read.")
    throttle: list[str] = Field(
        default_factory=list, description="Gates that hold work on rows while their last sample is over their max."
    )
    max_wait: Duration = _duration(600.0, "How long a check may hold before the phase pauses with exit 75.")
    stall_budget: Duration = _duration(0.25, "Longest wait of one statement of the application because of us.")


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


class GateForm(Form):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$", description="Its name in read_switch.gates.")
    sql: Sql | None = Field(default=None, description="A SELECT that gives one number.")
    prometheus: str | None = Field(default=None, min_length=1, description="A query that gives one series.")
    command: str | None = Field(
        default=None, min_length=1, description="A command that prints one number, or exits with 0 or 1."
    )
    max: Number | None = Field(default=None, description="Greatest number that passes.")
    max_increase: Share | None = Field(default=None, description="Greatest rise over the baseline that passes.")
    interval: Duration = _duration(10.0, "Time between two samples.")
    count: int = Field(default=5, ge=1, le=100, description="How many of the last samples are judged.")
    failure_limit: int = Field(default=3, ge=1, le=100, description="The gate fails when so many of them failed.")
    inconclusive_limit: int = Field(
        default=3, ge=1, le=100, description="The gate cannot say when so many gave no number."
    )
    timeout: Duration = _duration(5.0, "Longest time for one sample.")
    sample_size: str | None = Field(
        default=None, min_length=1, description="Asked as the gate is: how many events its number is made of."
    )
    min_sample_size: Number | None = Field(default=None, description="A number made of fewer events is none.")


class PrometheusForm(Form):
    url: str = Field(
        default="", pattern=r"^$|^https?://[^\s@?#]+$", description="Address of the server, without account or query."
    )
    ca: str = Field(default="", description="File of the authorities that its certificate must come from.")


class WaiverForm(Form):
    rule: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$", description="The rule that is waived.")
    reason: str = Field(min_length=1, description="Why it may be broken here.")
    evidence: str = Field(default="", description="What shows that it is harmless here.")
    until: str = Field(
        default="", pattern=r"^$|^[0-9]{4}-[0-9]{2}-[0-9]{2}$", description="Last day on which the waiver counts."
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
