"""Commands of the runbook: what they are given, and that nothing of one that takes too long is left."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import time
from pathlib import Path

import pytest

from orchestrator.command import CommandFailed, run_command
from orchestrator.drivers.reads.gates import _run as sample
from orchestrator.model.runbook import GateSpec

OURS = {
    "ROLLOUT_PASSWORD": "marked-Secret-9917",
    "MYSQL_PWD": "marked-Secret-9917",
    "AWS_SECRET_ACCESS_KEY": "marked-Secret-9917",
    "LD_PRELOAD": "/nowhere.so",
    "PYTHONPATH": "/nowhere",
    "IFS": "x",
}


@pytest.mark.parametrize("has_all", [True, False])
def test_a_command_gets_its_text_and_exactly_what_it_may_have_of_our_environment(
    monkeypatch: pytest.MonkeyPatch, has_all: bool
) -> None:
    """No more than the five by which a program finds its interpreter, its home and its language, and what is said to
    it."""
    passed = {"PATH": os.environ["PATH"], "HOME": "/", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    for name in passed:
        monkeypatch.setenv(name, passed[name])
        if not has_all:
            monkeypatch.delenv(name)
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)
    program = "import sys; print(sys.stdin.read()); sys.stdout.write(open('/proc/self/environ').read())"
    said = run_command([sys.executable, "-E", "-X", "utf8", "-c", program], 20, "größe", MORE="1")
    text, _, environment = said.out.partition("\n")
    assert (said.code, text) == (0, "größe")
    given = dict(entry.split("=", 1) for entry in environment.split("\0") if entry)
    assert given == (passed if has_all else {}) | {"MORE": "1"}


@pytest.mark.parametrize("sign", [";", "$HOME", "$(id)", "`id`", "|", "&&", ">made", "*", "~", "\\\\"])
def test_no_shell_reads_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sign: str) -> None:
    monkeypatch.chdir(tmp_path)
    program = "import sys; print(sys.argv[1:])"
    said = run_command(f"{sys.executable} -c '{program}' a {sign} touch made", 20)
    assert said.out.strip() == str(["a", "\\" if sign == "\\\\" else sign, "touch", "made"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["", "no-such-program-here", "echo 'open", [sys.executable + "-not"]])
def test_a_command_that_cannot_be_run_says_so(command: str | list[str]) -> None:
    with pytest.raises(CommandFailed, match="cannot be run"):
        run_command(command, 5)


@pytest.mark.parametrize("then", ["wait", "exit 0"])
def test_what_a_late_command_started_ends_with_it(then: str, tmp_path: Path) -> None:
    """B113: overall time-out with process-group kill; also of one that ended, and left somebody who keeps its output
    open."""
    told = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(CommandFailed, match=r"no answer within 0\.5 s"):
        run_command(["sh", "-c", f"sleep 60 & echo $! > {told}; {then}"], 0.5)
    assert time.monotonic() - began < 10
    deadline = time.monotonic() + 5
    while (state := Path(f"/proc/{int(told.read_text())}/stat")).exists() and time.monotonic() < deadline:
        if state.read_text().rpartition(")")[2].split()[0] == "Z":
            break
    else:
        assert not state.exists()


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("checks", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_checks_by_a_command_leave_no_descriptor_open(checks: int) -> None:
    """B113: descriptors constant over 1000 checks (long: forty show it, a thousand is what the case says), whether they
    answer, fail, cannot be run, or are ended with what they started."""
    spec = GateSpec("errors", "command", "true", max=0.0)
    before = descriptors()
    for command in itertools.islice(itertools.cycle(["true", "false", "no-such-program-here", "echo many"]), checks):
        sample(spec, command)
    for _ in range(max(2, checks // 100)):
        with pytest.raises(CommandFailed, match="no answer"):
            run_command(["sh", "-c", "sleep 60 & exit 0"], 0.05)
    assert descriptors() <= before


@pytest.mark.parametrize(
    ("command", "taken"),
    [
        ("echo 7", 7.0),
        ("true", 0.0),
        ("false", 1.0),
        ("sh -c 'echo 3; exit 2'", "exit code 2: 3"),
        ("echo many", "'many' is not a number"),
        ("sh -c 'kill -9 $$'", "killed by signal 9"),
    ],
)
def test_a_gate_takes_a_number_or_says_why_there_is_none(command: str, taken: float | str) -> None:
    """A command that was killed has said nothing: its exit code is no number to be judged."""
    assert sample(GateSpec("errors", "command", command, max=0.0), command) == taken
