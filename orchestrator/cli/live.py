"""What lint finds when it looks at the server: whatever would refuse the plan, and what else names the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orchestrator.cli.shared import Shared

if TYPE_CHECKING:
    from orchestrator.model.runbook import Runbook
    from orchestrator.runbook.lint import Found


def live_findings(of: Shared, runbook: Runbook, scratch: bool) -> tuple[Found, ...]:
    """One finding for each problem of the plan that the file alone did not show, and for each view, routine, event and
    foreign trigger that names the table. Raises RolloutError."""
    from orchestrator.app.live_lint import look_beyond_the_file

    with of.opened() as app:
        return look_beyond_the_file(app, runbook, of.settings(), scratch)
