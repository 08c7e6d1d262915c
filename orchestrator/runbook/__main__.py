"""``python -m orchestrator.runbook > runbooks/schema.json`` writes the schema that editors read."""

import sys

from orchestrator.runbook.schema import schema_text

sys.stdout.write(schema_text())
