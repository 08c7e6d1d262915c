"""The example in docs/applications.md is run as it is written."""

from __future__ import annotations

import re
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from orchestrator.sandbox.flag_reader import bucket
from orchestrator.sandbox.server import Server
from tests.support.servers import connect, script, sql, wait_for

DOCUMENT = Path(__file__).parents[2] / "docs" / "applications.md"


@pytest.fixture
def example() -> dict[str, Any]:
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
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
