"""The command line: verbs, tables, exit codes. Everything heavy is imported by the verb that needs it."""

from __future__ import annotations


def main() -> None:
    """Entry point of the command ``rollout``."""
    import gc
    import os

    # A quarter of a start went into looking for garbage among things that stay, and for plugins that nobody has.
    gc.set_threshold(100_000, 20, 20)
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    from orchestrator.cli.main import run

    run()
