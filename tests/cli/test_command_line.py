"""The command itself: help, options in any place, where the server comes from, and pipes that close."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from orchestrator.sandbox.pair import Pair
from orchestrator.sandbox.template import OPERATOR
from tests.support.command import ROLLOUT, Terminal
from tests.support.looking import small_account
from tests.support.servers import connect
from tests.support.small import Small, small

ACT = ("next", "run", "pause", "resume", "abort", "rollback", "finish", "purge", "freeze", "sandbox", "demo")
LOOK = ("plan", "status", "history", "verify", "check", "doctor", "metrics", "lint")
HEAVY = ("pydantic", "pymysql", "yaml", "rich", "prometheus_client", "tabulate", "sh", "structlog", "cryptography")


@pytest.fixture(scope="module")
def here(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Only looked at by these tests."""
    with small(pair, tmp_path_factory.mktemp("line")) as made:
        yield made


def bare(here: Small, *kept: str, **more: str) -> dict[str, str]:
    """The terminal's environment without what it says about server and runbook, but for ``kept``."""
    return {k: v for k, v in here.terminal.environment.items() if not k.startswith("ROLLOUT_") or k in kept} | more


def run(environment: dict[str, str], *arguments: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [ROLLOUT, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        cwd=folder,
    )


def test_0_for_help_that_names_every_verb_and_imports_nothing_heavy() -> None:
    code = "import sys; sys.argv[1:] = ['--help']; from orchestrator.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert ran.returncode == 0
    named = [line.split()[0] for line in ran.stdout.split("Commands:")[1].splitlines() if line.strip()]
    assert [v for v in (*ACT, *LOOK) if v not in named] == []
    imported = {line.rsplit("|", 1)[1].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}
    assert {"orchestrator", "typer"} <= imported
    assert imported & set(HEAVY) == set()


@pytest.mark.parametrize("verb", ["next", "plan", "rollback", "sandbox"])
def test_0_for_the_help_of_a_verb(verb: str) -> None:
    ran = subprocess.run([ROLLOUT, verb, "--help"], capture_output=True, text=True, timeout=100, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"Usage: rollout {verb}" in ran.stdout


@pytest.mark.parametrize("arguments", [("plam",), ("plan", "--sqll"), ("next", "--phase"), ("--port", "x", "plan")])
def test_2_for_a_command_line_that_cannot_be_meant(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run([ROLLOUT, *arguments], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == ""
    assert ran.stderr.splitlines()[0].split() == ["usage", "exit", "2"]
    assert "Traceback" not in ran.stderr


def test_options_count_before_and_behind_the_verb_and_with_an_equals_sign(here: Small, tmp_path: Path) -> None:
    where = ("-f", str(here.terminal.runbook), f"--port={here.pair.primary.port}", "--host", "127.0.0.1", "--json")
    environment = bare(here, "ROLLOUT_USER", "ROLLOUT_PASSWORD")
    spellings = ((*where, "status"), ("status", *where), (*where[:2], "status", *where[2:]))
    answers = [json.loads(run(environment, *words, folder=tmp_path).stdout) for words in spellings]
    for answer in answers:
        answer["lag_ms"] = None  # of that moment
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["rollout"] == "orders-state"


def test_a_flag_counts_more_than_a_url_that_than_the_environment_that_than_an_option_file(
    here: Small, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.cnf").write_text(f'[rollout]\nuser="{OPERATOR.user}"\npassword = "{OPERATOR.password}"\n')
    (tmp_path / "more" / "c.txt").write_text("[rollout]\nuser=nobody\n")
    port = here.pair.primary.port
    file = tmp_path / "my.cnf"
    file.write_text(
        f"# as clients read it\n[client]\nhost=127.0.0.1\nport={port}\nuser=nobody\nssl\n"
        f"[mysqld]\nport=1\n!includedir {tmp_path / 'more'}\n"
    )
    here.terminal.runbook.with_name("rollout.yaml")
    folder = here.terminal.runbook.parent  # rollout.yaml of this folder is the runbook when nobody names one
    ran = run(bare(here), "--defaults-file", str(file), "check", folder=folder)
    assert ran.returncode == 0, ran.stderr
    by_environment = bare(here, ROLLOUT_DEFAULTS_FILE=str(file), ROLLOUT_PORT="1")
    ran = run(by_environment, "status", folder=folder)
    assert (ran.returncode, "127.0.0.1:1" in ran.stderr) == (69, True), ran.stderr
    ran = run(by_environment, "--url", f"mysql://{OPERATOR.user}@127.0.0.1:{port}", "status", folder=folder)
    assert ran.returncode == 0, ran.stderr
    ran = run(by_environment, "--url", f"mysql://127.0.0.1:{port}", "--port", "2", "status", folder=folder)
    assert (ran.returncode, "127.0.0.1:2" in ran.stderr) == (69, True), ran.stderr


def test_2_for_a_url_with_a_password_which_is_not_repeated(here: Small) -> None:
    ran = run(here.terminal.environment, "--url", "mysql://rollout:marked-Secret-5512@127.0.0.1:3306", "status")
    assert ran.returncode == 2
    assert "ROLLOUT_PASSWORD" in ran.stderr
    assert "marked-Secret-5512" not in ran.stderr + ran.stdout
    ran = run(here.terminal.environment, "status", "--ask-password")
    assert (ran.returncode, "no terminal" in ran.stderr) == (2, True)


@pytest.mark.parametrize("where", ["mysql://u:marked-Secret/@h:x", "mysql://u@h:99999", "mysql://u@[::1", "http://u@h"])
def test_2_for_a_url_that_cannot_be_meant(here: Small, where: str) -> None:
    ran = run(here.terminal.environment, "--url", where, "status")
    assert (ran.returncode, "mysql://user@host:port" in ran.stderr) == (2, True)
    assert "marked-Secret" not in ran.stderr + ran.stdout


def test_2_for_a_file_or_a_port_that_cannot_be_had(here: Small) -> None:
    lock = here.terminal.runbook.with_suffix(".lock")
    lock.unlink(missing_ok=True)  # other tests freeze it
    lock.mkdir()
    ran = run(here.terminal.environment, "freeze")
    assert (ran.returncode, f"{lock} cannot be written" in ran.stderr) == (2, True)
    assert list(lock.parent.glob(".*")) == []
    lock.rmdir()
    ran = run(here.terminal.environment, "metrics", "--port", str(here.pair.primary.port))
    assert (ran.returncode, "choose another --port" in ran.stderr) == (2, True)
    assert run(here.terminal.environment, "metrics", "--port", "70000").returncode == 2


@pytest.mark.parametrize("text", ["[client\npassword=marked-Secret-5512\n", "password=marked-Secret-5512\n"])
def test_78_for_an_option_file_that_cannot_be_read_and_no_value_of_it_is_shown(
    here: Small, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "my.cnf"
    file.write_text(text)
    ran = run(here.terminal.environment, "status", "--defaults-file", str(file))
    assert ran.returncode == 78, ran.stderr
    assert str(file) in ran.stderr
    assert "marked-Secret-5512" not in ran.stderr + ran.stdout
    assert run(here.terminal.environment, "status", "--defaults-file", str(tmp_path / "none")).returncode == 78


def test_a_pipe_that_closes_ends_a_command_without_a_traceback(here: Small) -> None:
    for arguments in (["plan", "--sql"], ["plan", "--json"], ["status", "-w"], ["--help"]):
        reading, writing = os.pipe()
        process = subprocess.Popen(
            [ROLLOUT, *arguments],
            env=here.terminal.environment,
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
        )
        os.close(writing)
        os.close(reading)  # as `| head -1` does once it has its line
        _, err = process.communicate(timeout=60)
        assert err == "", (arguments, err)
        assert process.returncode == 0, (arguments, process.returncode)


def test_no_colour_off_a_terminal_and_results_are_on_standard_output_alone(here: Small) -> None:
    environment = {k: v for k, v in here.terminal.environment.items() if k != "NO_COLOR"}
    ran = run(environment, "check")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "\x1b" not in ran.stdout
    first, *_ = ran.stdout.splitlines()
    assert first.split() == ["check", "now", "limit", "verdict"]


def test_a_watched_status_ends_after_its_timeout(here: Small) -> None:
    ran = here.terminal.run("status", "-w", "--timeout", "1", "--json")
    assert len(ran.out.splitlines()) >= 2


def test_the_shell_is_offered_the_verbs(here: Small) -> None:
    environment = here.terminal.environment | {
        "_ROLLOUT_COMPLETE": "complete_bash",
        "COMP_WORDS": "rollout p",
        "COMP_CWORD": "1",
    }
    ran = run(environment)
    assert ran.returncode == 0, ran.stderr
    assert {"plan", "pause", "purge"} <= set(ran.stdout.split())


def told(heard: Path) -> tuple[tuple[str, str], ...]:
    """Changes of a runbook: every command that it may have notes its arguments, its environment and what it is told on
    its standard input in ``heard``."""
    note = heard.with_suffix(".sh")
    note.write_text(f'{{ echo "as $1"; tr "\\0" "\\n" < /proc/$$/cmdline; env; cat; echo; }} >> {heard}; echo $2\n')
    gate = f"gates:\n  - {{name: told, command: sh {note} gate 0, max: 0, interval: 200ms}}\n"
    disk = f"checks: {{max_wait: 1s, disk: {{from: {{command: sh {note} disk 99999999999999}}}}}}\n"
    return (("checks: {max_wait: 1s}\n", f"{disk}{gate}notify: {{command: sh {note} notify}}\n"),)


BROKEN = """\
import sys
from orchestrator.mysql import session

def pin_all(connection, settings, extra):
    password = settings.password.reveal()
    raise ZeroDivisionError("forced")

session.pin_all = pin_all
sys.argv[1:] = ["status", "--json"]
from orchestrator.cli import main
main()
"""


@contextmanager
def statements_seen(here: Small) -> Iterator[set[str]]:
    """Whatever the process list and the statement history show, looked at all the time."""
    seen, ended = set[str](), threading.Event()

    def look() -> None:
        with closing(connect(here.pair.primary)) as session, session.cursor() as cursor:
            while not ended.wait(0.05):
                for table, text in (("processlist", "INFO"), ("events_statements_history", "SQL_TEXT")):
                    cursor.execute(f"SELECT {text} FROM performance_schema.{table} WHERE {text} IS NOT NULL")
                    seen.update(str(row[0]) for row in cursor.fetchall())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield seen
    finally:
        ended.set()
        looking.join()


def test_a_password_is_nowhere_but_where_it_was_put(here: Small) -> None:
    """Not in arguments, output, history, state, plan, lock or error texts, in no statement, in no traceback, and in
    nothing that a command of the runbook is told, whatever happens."""
    marked = "marked-Secret-5512"
    create = f"GRANT ALL ON *.* TO {{who}}; ALTER USER {{who}} IDENTIFIED BY '{marked}'"
    with small_account(here.pair.primary, "marked", create) as account:
        script_of = Terminal(
            here.pair.primary,
            here.terminal.runbook,
            {
                "ROLLOUT_USER": account.user,
                "ROLLOUT_PASSWORD": marked,
                "ROLLOUT_LOG": "1",
                "ROLLOUT_DEBUG": "1",
                "XDG_STATE_HOME": str(here.terminal.runbook.parent / "state"),
            },
        )
        saved, heard = (here.terminal.runbook.with_name(name) for name in ("saved.plan", "heard"))
        here.write(
            ("hold: 200ms, ttl: 4s, poll: 200ms, gates: [drift]", "hold: 5m, ttl: 9s, gates: [drift, told]"),
            *told(heard),
        )
        verbs = (
            ("freeze",),
            ("plan", "--sql", "-o", str(saved)),
            ("run", "--until", "shadow-write", "-y"),
            ("doctor",),
        )
        with statements_seen(here) as statements:
            said = [script_of.run(*verb, expect=None) for verb in verbs]
        assert [r.code for r in said] == [0] * len(verbs), said
        assert any("rollout:orders-state" in text for text in statements), "those of the run were seen"
        assert marked not in str(statements)
        broken = subprocess.run(
            [sys.executable, "-c", BROKEN], env=script_of.environment, capture_output=True, text=True, timeout=60
        )
        assert "ZeroDivisionError: forced" in broken.stderr, "a traceback was made where the password is at hand"
        assert marked not in broken.stderr + broken.stdout
        running = script_of.start("next", "-y")
        try:
            lines = [Path(f"/proc/{running.pid}/cmdline").read_bytes()]
            said.append(script_of.run("check"))
            wrong = Terminal(here.pair.primary, here.terminal.runbook, script_of.more | {"ROLLOUT_PORT": "1"})
            said.append(wrong.run("status", expect=69))
            refused = Terminal(here.pair.primary, here.terminal.runbook, script_of.more | {"ROLLOUT_USER": "nobody"})
            said.append(refused.run("status", "--json", expect=69))
            shown = here.sql("SELECT INFO FROM performance_schema.processlist WHERE INFO IS NOT NULL")
            attributes = here.sql("SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs")
        finally:
            script_of.run("pause")
            out, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
        assert marked.encode() not in b"".join(lines)
        assert marked not in "".join(r.out + r.err for r in said) + out + err
        assert marked not in saved.read_text(encoding="utf-8")
        assert marked not in str(shown) + str(attributes)
        told_once_more = (
            *(("history", "--json"), ("status", "--runbook-text"), ("status", "--json"), ("plan", "--json")),
            *(
                ("check", "--json"),
                ("doctor", "--grants"),
                ("verify", "--json"),
                ("lint", "--live"),
                ("drift",),
                ("adr",),
            ),
        )
        answers = [script_of.run(*verb, expect=None) for verb in told_once_more]
        assert all(a.out or a.err for a in answers), answers
        assert marked not in "".join(a.out + a.err for a in answers)
        exporter = script_of.start("metrics", "--port", "0")
        try:
            assert exporter.stdout is not None
            with urlopen(exporter.stdout.readline().strip(), timeout=30) as answer:
                page = answer.read().decode()
        finally:
            exporter.terminate()
            left = exporter.communicate(timeout=60)
        assert "rollout_up 1.0" in page
        assert marked not in page + "".join(left)
        for (name,) in here.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '_rollout'"):
            assert marked not in str(here.sql(f"SELECT * FROM _rollout.`{name}`")), name
        script_of.run("rollback", "-y")
        children = heard.read_text(encoding="utf-8")
        assert {"as disk", "as gate", "as notify"} <= set(children.splitlines()), "each of them ran"
        assert marked not in children
        assert '"revision"' in children, "the event that a notification is told"
        files = [f for f in here.terminal.runbook.parent.rglob("*") if f.is_file()]
        assert {"rollout.lock", "saved.plan", "heard"} <= {f.name for f in files}
        assert [f for f in files if marked.encode() in f.read_bytes()] == []
        here.write()
