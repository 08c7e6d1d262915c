"""The SQL that asks which transactions a server has."""

from __future__ import annotations

EXECUTED = "SELECT IF(@@GLOBAL.gtid_mode = 'ON', @@GLOBAL.gtid_executed, '')"
# 0: all of the set is there; 1: not within the seconds. Works with a stopped applier, needs no privilege.
WAIT_FOR = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
MISSING = "SELECT GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)"
