"""Zero-downtime rollouts of MySQL tables: one runbook, six stages, and the way back from each."""

__version__ = "0.1.0"
