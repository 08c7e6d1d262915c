"""``python -m orchestrator`` is the command ``rollout``."""

from orchestrator.cli import main

main()
