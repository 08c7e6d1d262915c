"""``python -m orchestrator.runbook > runbooks/schema.json`` writes the schema that editors read;
``python -m orchestrator.runbook rules > docs/rules.md`` the page of the rules of lint."""

import sys

from orchestrator.runbook.rules_doc import rules_page
from orchestrator.runbook.schema import schema_text

sys.stdout.write(rules_page() if sys.argv[1:] == ["rules"] else schema_text())
