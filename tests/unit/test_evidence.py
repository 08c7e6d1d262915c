"""Which statement names what, as the server writes digests of them: keywords stand there without backticks."""

from __future__ import annotations

from datetime import datetime

import pytest
from msgspec.structs import replace

from orchestrator.drivers.waiting import _counts
from orchestrator.model.contract import TableName
from orchestrator.model.step import Quiet
from orchestrator.mysql.digests import Said, may_be_cut, names_column, names_table, one_sided, reads, reads_all, stores

ORDERS = TableName("shop", "orders")
FLAG = TableName("_rollout", "flag")
AT = datetime(2026, 1, 1)
STATUS_STATE = {"status", "state"}


@pytest.mark.parametrize(
    ("digest", "named"),
    [
        ("SELECT STATUS FROM `orders`", True),
        ("SELECT `o` . `Status` FROM `orders` `o`", True),
        ("UPDATE `orders` SET STATUS = ? WHERE `id` = ?", True),
        ("SELECT `status_at` , `my_status` FROM `orders`", False),
        ("SELECT `substatus` , STATUS_CODE FROM `orders`", False),
    ],
)
def test_a_column_is_named_with_backticks_or_as_the_keyword_that_it_is(digest: str, named: bool) -> None:
    assert (names_column(digest, ("other", "status")) == "status") is named


@pytest.mark.parametrize(
    ("digest", "default", "named"),
    [
        ("SELECT ? FROM `orders`", "shop", True),
        ("SELECT ? FROM `Orders`", "SHOP", True),
        ("SELECT ? FROM `orders`", "other", False),
        ("SELECT ? FROM `orders`", None, False),
        ("SELECT ? FROM `shop` . `orders`", "other", True),
        ("SELECT ? FROM `shop` . `orders`", None, True),
        ("SELECT ? FROM `other` . `orders`", "shop", False),
        ("SELECT ? FROM `other` . `orders` JOIN `orders` USING ( `id` )", "shop", True),
        ("SELECT ? FROM `old_orders` , `orders_2`", "shop", False),
    ],
)
def test_a_table_is_named_where_its_schema_is_said_or_is_the_default(
    digest: str, default: str | None, named: bool
) -> None:
    assert names_table(digest, default, ORDERS) is named


def said(text: str | None, schema: str | None = "shop", *, cut: bool = False) -> Said:
    return Said(text, schema, AT, AT, cut=cut)


def test_a_statement_without_a_digest_may_be_any() -> None:
    step = Quiet(table=ORDERS, columns=("status",), seconds=1, flag=True, writes_only=False, waived=False)
    assert _counts(step, FLAG, said(None))
    assert not _counts(step, FLAG, said("SELECT ? FROM `orders`"))
    assert _counts(step, FLAG, said("SELECT `new_writes` FROM `_rollout` . `flag`"))
    ours = "SELECT `new_writes` , TIMESTAMPDIFF ( MICROSECOND , ... ) FROM `_rollout` . `flag`"
    assert not _counts(step, FLAG, said(ours, None))


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (None, False),
        ("SELECT ?, ...", False),
        ("SELECT " + " , ".join(["`name`"] * 60), False),
        ("SELECT " + " , ".join(["`name`"] * 90), True),
        ("UPDATE `t` SET " + " , ".join(["STATUS = ?"] * 90), False),
        ("UPDATE `t` SET " + " , ".join(["STATUS = ?"] * 110), True),
    ],
)
def test_a_text_is_taken_for_cut_where_another_name_might_have_had_no_room(text: str | None, cut: bool) -> None:
    """A list of values ends with three dots; nothing shows where the server stopped."""
    assert may_be_cut(text, 1024) is cut


@pytest.mark.parametrize(
    ("digest", "stored"),
    [
        (
            "UPDATE `orders` SET STATUS = ? , `o` . `state` = CASE STATUS WHEN ? THEN ? END WHERE `id` = ?",
            [STATUS_STATE],
        ),
        ("UPDATE `orders` SET STATUS = ? , `n` = IF ( `a` = ? , ... ) ORDER BY `b` LIMIT ?", [{"status", "n"}]),
        ("UPDATE `orders` JOIN `t` ON `t` . `a` = `orders` . `a` SET `t` . `b` = `orders` . `state`", [{"b"}]),
        ("INSERT INTO `orders` ( `id` , STATUS ) VALUES (...) /* , ... */", [{"id", "status"}]),
        ("INSERT INTO `shop` . `orders` SET `id` = ? , STATUS = ?", [{"id", "status"}]),
        ("REPLACE INTO `orders` ( `state` ) SELECT STATUS FROM `t` WHERE ( `a` )", [{"state"}]),
        (
            "INSERT INTO `orders` ( `id` , `state` ) VALUES (...) ON DUPLICATE KEY UPDATE `state` = VALUES ( STATUS )",
            [{"id", "state"}, {"state"}],
        ),
        ("LOAD DATA LOCAL INFILE ? INTO TABLE `orders` FIELDS TERMINATED BY ? ( `id` , STATUS )", [{"id", "status"}]),
        (
            "LOAD DATA INFILE ? INTO TABLE `orders` ( `id` , @ `x` ) SET `state` = UPPER ( @ `x` )",
            [{"id", "x", "state"}],
        ),
        ("WITH `w` AS ( SELECT ? ) UPDATE `orders` SET `state` = ?", [{"state"}]),
        ("DELETE FROM `orders` WHERE STATUS = ?", []),
        ("SELECT STATUS FROM `orders` FOR UPDATE", []),
    ],
)
def test_what_a_statement_stores_is_told_from_what_it_looks_at(digest: str, stored: list[set[str]]) -> None:
    assert [set(part.columns) for part in stores(digest)] == stored
    assert not any(part.every or part.cut for part in stores(digest))


@pytest.mark.parametrize(
    ("digest", "every", "cut"),
    [
        ("INSERT INTO `orders` VALUES (...)", True, False),
        ("INSERT INTO `orders` SELECT `a` , ( ? ) FROM `t`", True, False),
        ("LOAD DATA INFILE ? INTO TABLE `orders` FIELDS TERMINATED BY ?", True, False),
        ("UPDATE `orders` SET `note` = ? ,", False, True),
        ("UPDATE `orders` SET `note` = ?", False, True),
        ("UPDATE `orders` JOIN `t`", False, True),
        ("WITH `w` AS ( SELECT `a` ,", False, True),
        ("INSERT INTO `orders` ( `id` , `note` ,", False, True),
        ("INSERT INTO `orders` ( `id` , `note` ) VALUES", False, False),
        ("UPDATE `orders` SET `state` = ? WHERE `id` = ? OR", False, False),
    ],
)
def test_a_statement_without_a_list_stores_all_and_one_that_is_cut_nobody_knows_what(
    digest: str, every: bool, cut: bool
) -> None:
    (part,) = stores(digest, cut=True)
    assert (part.every, part.cut) == (every, cut)


@pytest.mark.parametrize(
    ("digest", "missed"),
    [
        ("UPDATE `orders` SET STATUS = ? , `state` = ?", ()),
        ("UPDATE `orders` SET STATUS = ? WHERE `state` = ?", (("status", "state"),)),
        ("UPDATE `orders` SET `state` = STATUS", (("state", "status"),)),
        ("UPDATE `orders` SET `note` = ? WHERE STATUS = ?", ()),
        ("INSERT INTO `orders` VALUES (...)", ()),
        ("INSERT INTO `orders` ( STATUS , `state` ) VALUES (...) ON DUPLICATE KEY UPDATE STATUS = ?",
         (("status", "state"),)),
        ("UPDATE `orders` SET `note` = ? , ", (("", ""),)),
        (None, (("", ""),)),
    ],
)  # fmt: skip
def test_b59_a_statement_that_writes_one_column_of_a_pair_alone_is_named(
    digest: str | None, missed: tuple[tuple[str, str], ...]
) -> None:
    """B59: the old writer that never got the flag."""
    cut = digest is not None and digest.endswith(" ")
    assert one_sided(said(digest, cut=cut), (("status", "state"),)) == missed


@pytest.mark.parametrize(
    ("digest", "read", "star"),
    [
        ("SELECT STATUS FROM `orders`", ("status",), False),
        ("SELECT `id` FROM `orders` ORDER BY `Status`", ("status",), False),
        ("UPDATE `orders` SET STATUS = ?", (), False),
        ("UPDATE `orders` SET `state` = STATUS", ("status",), False),
        ("UPDATE `orders` SET `timeout` = ? WHERE STATUS = ?", ("status",), False),
        ("SELECT * FROM `orders` WHERE `id` = ?", (), True),
        ("SELECT `o` . * , `t` . `id` FROM `orders` `o`", (), True),
        ("SELECT COUNT ( * ) FROM `orders`", (), False),
        ("SELECT `a` * `b` FROM `orders`", (), False),
    ],
)
def test_who_reads_a_column_is_told_from_who_writes_it(digest: str, read: tuple[str, ...], star: bool) -> None:
    assert (reads(digest, ("status", "count")), reads_all(digest)) == (read, star)


def test_writers_of_both_columns_do_not_disturb_the_quiet_but_readers_do() -> None:
    step = Quiet(table=ORDERS, columns=("status",), seconds=1, flag=False, writes_only=False, waived=False)
    doubled = replace(step, doubled=(("status", "state"),))
    both = "UPDATE `orders` SET `state` = ? , STATUS = CASE `state` WHEN ? THEN ? END"
    assert (_counts(step, FLAG, said(both)), _counts(doubled, FLAG, said(both))) == (True, False)
    for text in ("UPDATE `orders` SET STATUS = ?", "SELECT STATUS FROM `orders`"):
        assert _counts(doubled, FLAG, said(text))
    for text in (f"{both} WHERE `id` = ?", "UPDATE `orders` SET `note` = ? ,", "SELECT `note` FROM `orders` WHERE"):
        assert (_counts(doubled, FLAG, said(text)), _counts(doubled, FLAG, said(text, cut=True))) == (False, True)
    back = replace(doubled, columns=("state",), writes_only=True)
    assert not _counts(back, FLAG, said("SELECT `state` FROM `orders`"))
    assert _counts(back, FLAG, said("UPDATE `orders` SET `state` = ?"))


def test_ddl_is_no_statement_of_an_application() -> None:
    assert said("ALTER TABLE `orders` RENAME COLUMN `status` TO `state`").shapes
    assert not said("UPDATE `orders` SET `status` = ?").shapes
    assert not said(None).shapes


def test_a_text_that_cannot_be_read_may_read_every_column_that_it_names() -> None:
    assert reads("SELECT 'cut `status` , `note` ...", ("status", "note", "other")) == ("status", "note")
