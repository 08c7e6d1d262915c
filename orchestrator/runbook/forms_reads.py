"""How readers move: the forms of read-switch, of gates, and of where Prometheus is."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestrator.runbook.forms import Form, Sql
from orchestrator.runbook.forms_units import Duration, Number, Share, WindowText, duration


class FlagdForm(Form):
    file: str = Field(
        pattern=r"^/", description="The flag definition file that flagd reads, ours alone; an absolute path."
    )


class ProgramForm(Form):
    program: str = Field(min_length=1, description="Called with `set PERCENT` and `get`; no shell.")
    timeout: Duration = duration(5.0, "Longest time for one call; 10s at most.")


class ReadSwitchForm(Form):
    driver: Literal["flag_table", "flagd", "command"] = Field(
        default="flag_table", description="How applications learn where to read."
    )
    flagd: FlagdForm | None = Field(default=None, description="For driver: flagd.")
    command: ProgramForm | None = Field(default=None, description="For driver: command.")
    percent: list[int] = Field(
        default_factory=lambda: [1, 5, 25, 50, 100],
        min_length=1,
        max_length=100,
        description="Steps of the ramp: rising, 1 to 100, ending at 100.",
    )
    hold: Duration = duration(300.0, "How long each step is watched.")
    ttl: Duration = duration(90.0, "How long the flags live without a sign of the watcher.")
    window: WindowText | None = Field(
        default=None, description="Hours in which percent steps begin; left out: all day. The way back ignores it."
    )
    poll: Duration = duration(1.0, "How often applications ask for the flags.")
    gates: list[str] = Field(default_factory=lambda: ["drift"], description="Gates that must pass at each step.")
    on_watcher_loss: Literal["back", "stay"] = Field(
        default="back",
        description="What a lost watcher means. back: the flags expire and readers go back. stay: they stay.",
    )


class GateForm(Form):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$", description="Its name in read_switch.gates.")
    sql: Sql | None = Field(default=None, description="A SELECT that gives one number.")
    prometheus: str | None = Field(default=None, min_length=1, description="A query that gives one series.")
    command: str | None = Field(
        default=None, min_length=1, description="A command that prints one number, or exits with 0 or 1."
    )
    max: Number | None = Field(default=None, description="Greatest number that passes.")
    max_increase: Share | None = Field(default=None, description="Greatest rise over the baseline that passes.")
    interval: Duration = duration(10.0, "Time between two samples.")
    count: int = Field(default=5, ge=1, le=100, description="How many of the last samples are judged.")
    failure_limit: int = Field(default=3, ge=1, le=100, description="The gate fails when so many of them failed.")
    inconclusive_limit: int = Field(
        default=3, ge=1, le=100, description="The gate cannot say when so many gave no number."
    )
    timeout: Duration = duration(5.0, "Longest time for one sample.")
    sample_size: str | None = Field(
        default=None, min_length=1, description="Asked as the gate is: how many events its number is made of."
    )
    min_sample_size: Number | None = Field(default=None, description="A number made of fewer events is none.")


class PrometheusForm(Form):
    url: str = Field(
        default="", pattern=r"^$|^https?://[^\s@?#]+$", description="Address of the server, without account or query."
    )
    ca: str = Field(default="", description="File of the authorities that its certificate must come from.")
