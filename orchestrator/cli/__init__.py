"""The command line: verbs, tables, exit codes. Everything heavy is imported by the verb that needs it."""

from __future__ import annotations


def main() -> None:
    """Entry point of the command ``rollout``."""
    from orchestrator.cli.main import run

    run()
