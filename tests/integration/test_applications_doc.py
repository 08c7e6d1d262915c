"""The examples in docs/applications.md are run as they are written, where their language is at hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from orchestrator.sandbox.flag_reader import bucket
from orchestrator.sandbox.server import Server
from tests.support.servers import connect, script, sql, wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "applications.md"


def written(language: str) -> str:
    (code,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return str(code)


@pytest.fixture
def example() -> dict[str, Any]:
    code = written("python")
    names: dict[str, Any] = {}
    exec(compile(code, str(DOCUMENT), "exec"), names)
    return names


@pytest.fixture
def job(primary: Server, schema: str) -> str:
    script(
        primary,
        f"CREATE TABLE {schema}.job (id VARCHAR(40) PRIMARY KEY, status VARCHAR(20), note TEXT, state VARCHAR(20),"
        " message TEXT);"
        f"INSERT INTO {schema}.job VALUES ('j1', 'processing', NULL, 'locked', NULL);"
        "CREATE DATABASE IF NOT EXISTS _rollout; CREATE TABLE _rollout.flag (rollout VARCHAR(64) PRIMARY KEY,"
        " new_writes TINYINT NOT NULL, read_percent INT NOT NULL, salt VARCHAR(64) NOT NULL,"
        " expires_at DATETIME(6) NOT NULL, epoch BIGINT NOT NULL)",
    )
    return schema


def _flag(primary: Server, writes: int, percent: int, seconds: int) -> None:
    sql(
        primary,
        "REPLACE INTO _rollout.flag VALUES ('jobs', %s, %s, 'salt', UTC_TIMESTAMP(6) + INTERVAL %s SECOND, 1)",
        (writes, percent, seconds),
    )


def test_the_example_obeys_the_flag_and_goes_back_when_it_expires(
    primary: Server, job: str, example: dict[str, Any]
) -> None:
    flags = example["Flags"](lambda: connect(primary), "jobs")
    connection = connect(primary, database=job)
    assert flags.decide() == (False, 0, "")
    _flag(primary, 1, 100, 60)
    wait_for(lambda: flags.decide() == (True, 100, "salt"), 5.0)
    assert example["job_state"](flags, connection, "j1") == "locked"
    example["finish_job"](flags, connection, "j1", "done")
    assert sql(primary, f"SELECT state, message, status FROM {job}.job") == [("succeeded", "done", "processing")]
    _flag(primary, 1, 100, -1)
    wait_for(lambda: flags.decide() == (False, 0, "salt"), 5.0)
    assert example["job_state"](flags, connection, "j1") == "running"
    example["finish_job"](flags, connection, "j1", "old")
    assert sql(primary, f"SELECT status, note FROM {job}.job") == [("completed", "old")]
    script(primary, "DROP TABLE _rollout.flag")
    wait_for(lambda: flags.decide() == (False, 0, ""), 5.0)
    connection.close()


def test_the_example_holds_an_answer_for_one_poll_and_no_longer(
    primary: Server, job: str, example: dict[str, Any]
) -> None:
    flags = example["Flags"](lambda: connect(primary), "jobs")
    _flag(primary, 1, 5, 60)
    began = time.monotonic()
    assert flags.decide()[1] == 5
    _flag(primary, 0, 0, 60)
    if time.monotonic() - began < 0.9:
        assert flags.decide()[1] == 5
    wait_for(lambda: flags.decide()[1] == 0, 1.5)


@pytest.mark.parametrize("key", [("j1",), (7, "ä:b"), (b"\x00\xff", 3), ("🚀",)])
def test_entities_are_told_apart_as_the_server_would(
    primary: Server, example: dict[str, Any], key: tuple[Any, ...]
) -> None:
    text = ":".join(part.hex() if isinstance(part, bytes) else str(part) for part in key)
    ((served,),) = sql(primary, "SELECT CRC32(CONCAT('salt', ':', CONVERT(%s USING utf8mb4))) %% 100", (text,))
    assert bucket("salt", key) == served == zlib.crc32(f"salt:{text}".encode()) % 100
    assert example["reads_new"](served + 1, "salt", *key)
    assert not example["reads_new"](served, "salt", *key)


# Sides of entities, and what holds while nobody can be asked.
JAVA = """
import java.lang.reflect.Proxy;
import java.sql.SQLException;
import javax.sql.DataSource;

public class Main {
    public static void main(String[] keys) {
        DataSource gone = (DataSource) Proxy.newProxyInstance(
            Main.class.getClassLoader(), new Class<?>[] {DataSource.class}, (p, m, a) -> { throw new SQLException(); });
        Flags.Answer old = new Flags(gone, "jobs").decide();
        System.out.println(old.newWrites() + " " + old.readPercent());
        for (String key : keys) {
            int percent = 0;
            while (!new Flags.Answer(true, percent, "salt").readsNew(key)) percent++;
            System.out.println(percent - 1);
        }
    }
}
"""
GO = """
package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"examples/flags"
)

type gone struct{}

func (gone) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("gone") }
func (gone) Driver() driver.Driver                         { return nil }

func main() {
	old := (&flags.Flags{Primary: sql.OpenDB(gone{}), Rollout: "jobs"}).Decide()
	fmt.Println(old.NewWrites, old.ReadPercent)
	for _, key := range os.Args[1:] {
		percent := uint32(0)
		for !(flags.Answer{NewWrites: true, ReadPercent: percent, Salt: "salt"}).ReadsNew(key) {
			percent++
		}
		fmt.Println(percent - 1)
	}
}
"""
KEYS = ("j1", "7:ä:b", "00ff:3", "🚀")


def says(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "GOCACHE": str(folder / "cache"), "GOTOOLCHAIN": "local", "LC_ALL": "C.UTF-8"}
    ended = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=110, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("language", ["java", pytest.param("go", marks=pytest.mark.slow)])
def test_the_other_examples_tell_entities_apart_as_well_and_go_back_when_nobody_answers(
    language: str, tmp_path: Path
) -> None:
    program = shutil.which("javac" if language == "java" else "go")
    if program is None:
        pytest.skip(f"there is no {language} here: its example is not run")
    if language == "java":
        (tmp_path / "Flags.java").write_text(written("java"), encoding="utf-8")
        (tmp_path / "Main.java").write_text(JAVA, encoding="utf-8")
        says([program, "-encoding", "UTF-8", "Main.java", "Flags.java"], tmp_path)
        out = says([str(Path(program).with_name("java")), "-cp", ".", "Main", *KEYS], tmp_path)
    else:
        (tmp_path / "flags").mkdir()
        (tmp_path / "flags" / "flags.go").write_text(written("go"), encoding="utf-8")
        (tmp_path / "main.go").write_text(GO, encoding="utf-8")
        (tmp_path / "go.mod").write_text("module examples\n\ngo 1.21\n")
        out = says([program, "run", ".", *KEYS], tmp_path)
    wanted = [zlib.crc32(f"salt:{key}".encode()) % 100 for key in KEYS]
    assert out.split() == ["false", "0", *map(str, wanted)]
