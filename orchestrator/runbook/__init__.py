"""From a YAML file to the frozen runbook, strictly; its digest; and what the file alone says about its dangers."""

from orchestrator.runbook.difference import explain_difference
from orchestrator.runbook.digest import canonical, digest
from orchestrator.runbook.findings import Finding, RunbookFindings
from orchestrator.runbook.lint import lint
from orchestrator.runbook.load import load, parse
from orchestrator.runbook.rules import RULES, Rule
from orchestrator.runbook.schema import schema_text
from orchestrator.runbook.shorten import shorten, write_short_copy

__all__ = [
    "RULES",
    "Finding",
    "Rule",
    "RunbookFindings",
    "canonical",
    "digest",
    "explain_difference",
    "lint",
    "load",
    "parse",
    "schema_text",
    "shorten",
    "write_short_copy",
]
