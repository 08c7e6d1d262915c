"""From a YAML file to the frozen runbook, strictly; its digest; and what the file alone says about its dangers.

Nothing is gathered here: a command that must answer at once imports ``load`` and pays for no rule.
"""
