"""SHOW GRANTS is read as the server means it."""

from __future__ import annotations

import pytest

from orchestrator.mysql.look.rights import parse_grants

GRANTS = [
    "GRANT USAGE ON *.* TO `u`@`%`",
    "GRANT SELECT (`a`, `b`), INSERT ON `app`.`t` TO `u`@`%`",
    "GRANT ALL PRIVILEGES ON `whole`.* TO `u`@`%`",
    "GRANT UPDATE ON `pre%`.* TO `u`@`%`",
    "GRANT DELETE ON `one\\_two`.* TO `u`@`%`",
    "GRANT `role`@`%` TO `u`@`%`",
    "GRANT EXECUTE ON PROCEDURE `app`.`p` TO `u`@`%`",
    "GRANT PROXY ON ``@`` TO `u`@`%` WITH GRANT OPTION",
    "GRANT PROCESS, REPLICATION CLIENT ON *.* TO `u`@`%`",
]


@pytest.mark.parametrize(
    ("right", "schema", "table", "may"),
    [
        ("INSERT", "app", "t", True),
        ("INSERT", "app", "other", False),
        ("SELECT", "app", "t", False),
        ("TRIGGER", "whole", "x", True),
        ("UPDATE", "prefix", "x", True),
        ("UPDATE", "other", "x", False),
        ("DELETE", "one_two", "x", True),
        ("DELETE", "oneXtwo", "x", False),
        ("EXECUTE", "app", "p", False),
    ],
)
def test_grants_are_read_as_the_server_means_them(right: str, schema: str, table: str, may: bool) -> None:
    assert parse_grants(GRANTS).on_table(right, schema, table) is may


def test_a_partial_revoke_takes_away_and_a_global_right_is_global() -> None:
    rights = parse_grants(["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `secret`.* FROM `u`@`%`"], literal=True)
    assert rights.on_table("SELECT", "app", "t")
    assert not rights.on_table("SELECT", "secret", "t")
    assert parse_grants(GRANTS).everywhere("REPLICATION CLIENT")
    assert not parse_grants(GRANTS).everywhere("INSERT")
