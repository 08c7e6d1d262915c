"""What a contract promises of rows that are there already, asked of each of them in the scan of live values.

The server would refuse the statement (1138), or make up a value where it is not strict: neither is waited for.
"""

from __future__ import annotations

from orchestrator.model.contract import Contract
from orchestrator.model.facts import NULLS, Shape
from orchestrator.mysql import quote
from orchestrator.mysql.sql.rows import ref
from orchestrator.mysql.values import Problem


def promised_problems(contract: Contract, shape: Shape) -> tuple[Problem, ...]:
    """NULLs in columns that are there and of which the contract says NOT NULL. Pure."""
    wanted = [(c, shape.column(c.name)) for c in (*contract.columns, *contract.changes) if not c.null]
    return tuple(
        Problem(f"column {live.name}", f"IF({ref(live.name)} IS NULL, {quote.text(NULLS)}, NULL)", "NULL")
        for _, live in wanted
        if live is not None and live.null
    )
