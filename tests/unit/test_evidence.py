"""Which statement names what, as the server writes digests of them: keywords stand there without backticks."""

from __future__ import annotations

import pytest

from orchestrator.drivers.waiting import _counts
from orchestrator.model.contract import TableName
from orchestrator.model.step import Quiet
from orchestrator.mysql.sql.evidence import names_column, names_table

ORDERS = TableName("shop", "orders")
FLAG = TableName("_rollout", "flag")


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


def test_a_statement_without_a_digest_may_be_any() -> None:
    step = Quiet(table=ORDERS, columns=("status",), seconds=1, flag=True, writes_only=False, waived=False)
    assert _counts(step, FLAG, None, None)
    assert not _counts(step, FLAG, "SELECT ? FROM `orders`", "shop")
    assert _counts(step, FLAG, "SELECT `new_writes` FROM `_rollout` . `flag`", "shop")
    ours = "SELECT `new_writes` , TIMESTAMPDIFF ( MICROSECOND , ... ) FROM `_rollout` . `flag`"
    assert not _counts(step, FLAG, ours, None)
