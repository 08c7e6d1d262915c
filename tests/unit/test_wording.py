"""What a statement assigns, mentions, takes whole and leaves open, by its words alone."""

from __future__ import annotations

import pytest

from orchestrator.mysql.captured import meaning, not_declared, runnable
from orchestrator.mysql.wording import Wording, wording, words_of


def said(text: str) -> Wording:
    return wording(words_of(text), "t")


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("UPDATE t SET a = 1, b = b + 1 WHERE c = 2", "a, b"),
        ("UPDATE t AS x JOIN u ON u.id = x.id SET x.a = u.c, `b c` = IF(d = 1, 2, 3) ORDER BY e LIMIT 1", "a, b c"),
        ("WITH w AS (SELECT 1 AS a) UPDATE t, w SET t.b = w.a", "b"),
        ("INSERT INTO t (a, b) VALUES (1, 2), (3, 4)", "a, b"),
        ("INSERT IGNORE INTO s.t (a) SELECT c FROM u WHERE d = 1", "a"),
        ("INSERT INTO t SET a = 1, b = DEFAULT(c)", "a, b"),
        ("INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = VALUES(a), c = c + 1", "a, b, c"),
        ("INSERT INTO t SET a = 1 AS n ON DUPLICATE KEY UPDATE b = n.a", "a, b"),
        ("REPLACE t (a) VALUES (1)", "a"),
        ("INSERT INTO t PARTITION (p0, p1) (a) VALUES (1)", "a"),
        ("SELECT a FROM t WHERE b = 1 FOR UPDATE", ""),
        ("DELETE FROM t WHERE a = 1", ""),
    ],
)
def test_assignments_are_found_at_their_places(text: str, writes: str) -> None:
    assert said(text).writes == set(writes.split(", ")) - {""}


def test_what_is_assigned_is_read_only_where_it_stands_at_another_place_too() -> None:
    upsert = said("INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE b = VALUES(b), n = n + 1")
    assert upsert.writes == {"a", "b", "n"}
    assert upsert.mentions & {"a", "b", "n"} == {"n"}


@pytest.mark.parametrize(
    ("text", "takes_all"),
    [
        ("SELECT * FROM t", True),
        ("SELECT x.* FROM t AS x JOIN u y ON y.id = x.id", True),
        ("SELECT y.* FROM t AS x JOIN u y ON y.id = x.id", False),
        ("SELECT a, t.* FROM t", True),
        ("SELECT COUNT(*), a * 2 FROM t", False),
        ("SELECT a FROM u WHERE EXISTS (SELECT * FROM t WHERE t.id = u.id)", False),
        ("TABLE t", True),
        ("SELECT * FROM u", False),
    ],
)
def test_a_star_of_the_table_is_told_from_other_stars(text: str, takes_all: bool) -> None:
    assert said(text).takes_all is takes_all


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("INSERT INTO t VALUES (1, 2)", True),
        ("INSERT INTO t SELECT * FROM u", True),
        ("INSERT INTO t (SELECT a FROM u)", True),
        ("INSERT INTO t () VALUES ()", False),
        ("INSERT INTO t (a) SELECT b FROM u", False),
    ],
)
def test_an_insert_without_a_list_is_told_from_one_with(text: str, bare: bool) -> None:
    assert said(text).lists_nothing is bare


@pytest.mark.parametrize(
    ("digest", "text"),
    [
        ("SELECT `a` FROM `t` WHERE `id` IN (...) LIMIT ?", "SELECT `a` FROM `t` WHERE `id` IN(?) LIMIT ?"),
        ("INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */", "INSERT INTO `t` (`a`, `b`) VALUES(?, ?)"),
        ("UPDATE `t` SET `a` = NOW (?) WHERE `b` < ?", "UPDATE `t` SET `a` = NOW(3) WHERE `b` < ?"),
        ("INSERT INTO `t` VALUES (...)", ""),
        ("SELECT COUNT ( * ) FROM `s` . `t`", "SELECT COUNT(*) FROM `s`.`t`"),
    ],
)
def test_a_digest_becomes_a_statement_again(digest: str, text: str) -> None:
    assert runnable(digest) == text


def test_a_digest_that_says_what_is_declared_is_not_told_again() -> None:
    declared = ["select a FROM t WHERE id IN (?, ?) AND b = 'x' LIMIT 5", "INSERT INTO t (a, b) VALUES (?, ?)"]
    digests = [
        "SELECT `a` FROM `t` WHERE `id` IN (...) AND `b` = ? LIMIT ?",
        "INSERT INTO `t` ( `a` , `b` ) VALUES (...)",
        "SELECT `c` FROM `t`",
    ]
    assert not_declared([runnable(d) for d in digests], declared) == ("SELECT `c` FROM `t`",)
    assert meaning("SELECT  A from T") == meaning("select `a` FROM `t`")
