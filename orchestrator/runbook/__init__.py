"""From a YAML file to the frozen runbook, strictly; its digest; and what the file alone says about its dangers."""

from orchestrator.runbook.difference import explain_difference
from orchestrator.runbook.digest import canonical, digest
from orchestrator.runbook.findings import Finding, RunbookFindings
from orchestrator.runbook.load import load, parse
from orchestrator.runbook.shorten import shorten

__all__ = [
    "Finding",
    "RunbookFindings",
    "canonical",
    "digest",
    "explain_difference",
    "load",
    "parse",
    "shorten",
]
