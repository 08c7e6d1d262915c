"""docs/rules.md, made from the rules and their examples; a test holds the committed page equal."""

from __future__ import annotations

from collections.abc import Iterator

from orchestrator.runbook.examples import EXAMPLES
from orchestrator.runbook.rules import RULES, Rule

_HEAD = """\
# The rules of lint

Made by `python -m orchestrator.runbook rules`; do not edit.

An **error** refuses the runbook, a **warning** is told and refuses nothing. A waiver in the runbook names the rule, a
reason, evidence and a last day (`until`); lint and plan show it. Rules that the tool's own correctness rests on cannot
be waived.

`rollout lint --format json|github` gives the same findings to machines; `--live` looks at the live table and the values
in it too, and at the views, routines, events and triggers of other tables that name it.
"""


def rules_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *_index(), "", *(line for rule in RULES.values() for line in _section(rule))])


def _index() -> Iterator[str]:
    yield "| rule | | law |"
    yield "|---|---|---|"
    for rule in RULES.values():
        yield f"| [`{rule.id}`](#{rule.id}) | {rule.severity.value} | {rule.law} |"


def _section(rule: Rule) -> Iterator[str]:
    good, bad = EXAMPLES[rule.id].lines
    yield f"## {rule.id}"
    yield ""
    yield f"{rule.severity.value.capitalize()}: {rule.law}."
    yield ""
    yield f"- Why: {rule.why}."
    yield f"- Mend: {rule.mend}."
    yield f"- Waiver: {'possible' if rule.waivable else 'not possible'}."
    yield ""
    yield "```yaml"
    yield "# broken"
    yield bad
    yield "# kept"
    yield good
    yield "```"
    yield ""
