"""For each rule one line that keeps it and one that breaks it, in a small runbook that keeps them all.

The documentation shows them, and a test runs them: an example that lint does not agree with cannot be shipped.
"""

from __future__ import annotations

from msgspec import Struct

BASE = """\
apiVersion: rollout/v1
name: clean
table: {schema: app, name: job, before: {columns: [{name: id, type: bigint, null: false}]}}
contract:
  columns:
    - {name: state, type: varchar(9)}
    - {name: tries, type: int, null: false, default: 0}
    - {name: kind, type: varchar(9)}
    - {name: parent, type: bigint}
    - {name: note, type: text}
    - {name: size, type: "decimal(6,2)"}
  indexes:
    - {name: job_parent_idx, columns: [parent]}
    - {name: job_state_idx, columns: [state]}
  foreign_keys:
    - {name: job_parent_fk, columns: [parent], references: box(id), on_delete: set null}
mappings:
  - old: status
    new: state
    forward: {values: {new: pending, done: ok}}
    backward: {values: {pending: new, ok: done, held: new}}
  - {old: count, new: tries, forward: {sql: count + 1}, backward: {sql: tries - 1}}
  - {new: kind, forward: {sql: "'x'"}}
invariants:
  - {name: tries, sql: tries >= 0}
applications:
  old:
    - INSERT INTO job (status) VALUES (?)
  new:
    - INSERT INTO job (state) VALUES (?)
phases:
  read_switch: {gates: [drift]}
waivers:
  - {rule: index-blocks-writes, reason: tried on a copy, until: "2099-12-31"}
"""


class Example(Struct, frozen=True):
    """``good`` stands in BASE; with ``bad`` in its place the rule is broken."""

    good: str
    bad: str

    @property
    def text(self) -> str:
        """The runbook that breaks the rule."""
        return BASE.replace(self.good, self.bad, 1)

    @property
    def lines(self) -> tuple[str, str]:
        """The lines of the runbook that are meant, good and bad."""
        at = BASE.index(self.good)
        start, end = BASE.rindex("\n", 0, at) + 1, BASE.index("\n", at + len(self.good) - 1)
        good = BASE[start:end]
        return good, good.replace(self.good, self.bad, 1)


EXAMPLES: dict[str, Example] = {
    "new-column-not-null": Example("tries, type: int, null: false, default: 0", "tries, type: int, null: false"),
    "default-expression": Example("kind, type: varchar(9)", "kind, type: varchar(36), default: {sql: HEX(1)}"),
    "default-unsafe": Example("note, type: text", "note, type: varchar(36), default: {sql: UUID()}"),
    "generated-column": Example("note, type: text", "note, type: int, generated: n + 1, default: 3"),
    "generated-mapped": Example("kind, type: varchar(9)", "kind, type: varchar(9), generated: n + 1"),
    "default-not-allowed": Example("note, type: text", "note, type: text, default: ''"),
    "default-unfit": Example("default: 0", "default: zero"),
    "charset-of-column": Example(
        "type: bigint}\n    - {name: note", "type: bigint, charset: latin1}\n    - {name: note"
    ),
    "change-not-widening": Example("  indexes:", "  changes:\n    - {name: old_n, type: bigint}\n  indexes:"),
    "rename-in-place": Example("  indexes:", "  renames: [{old: owner, new: tenant, way: rename}]\n  indexes:"),
    "rename-evidence": Example("  indexes:", "  renames: [{old: seat, new: place, way: rename}]\n  indexes:"),
    "rename-fits": Example("  indexes:", "  renames: [{old: owner, new: state, way: map}]\n  indexes:"),
    "index-part": Example("columns: [state]", "columns: [note]"),
    "index-too-long": Example("state, type: varchar(9)", "state, type: varchar(769)"),
    "index-twice": Example("columns: [state]", "columns: [parent]"),
    "foreign-key-index": Example("job_parent_idx, columns: [parent]", "job_parent_idx, columns: [tries]"),
    "set-null-not-null": Example("name: parent, type: bigint", "name: parent, type: bigint, null: false, default: 0"),
    "self-reference-cascade": Example("references: box(id)", "references: job(id)"),
    "partner-constrained": Example("columns: [state]", "columns: [owner, state], unique: true"),
    "pairs-share-old": Example("{old: count, new", "{old: status, new"),
    "mapping-chain": Example("sql: count + 1", "sql: count + parent"),
    "pair-blind": Example("sql: tries - 1", "sql: '1'"),
    "backward-not-total": Example("ok: done, held", "okay: done, held"),
    "round-trip": Example("ok: done, held", "ok: new, held"),
    "value-unfit": Example("done: ok}", "done: ok, void: abandoned!}"),
    "null-into-not-null": Example("new: tries, forward: {sql: count + 1}", 'new: tries, forward: {values: {"0": ~}}'),
    "default-outside-mapping": Example("state, type: varchar(9)", "state, type: varchar(9), default: none"),
    "derived-not-null": Example("kind, type: varchar(9)", "kind, type: varchar(9), null: false, default: ''"),
    "expression-of-the-row": Example("sql: count + 1", "sql: count + RAND()"),
    "statement-single": Example("- INSERT INTO job (status) VALUES (?)", "- DELETE FROM job; DELETE FROM box"),
    "insert-without-columns": Example("- INSERT INTO job (status) VALUES (?)", "- INSERT INTO job VALUES (?, ?)"),
    "replace-resets": Example("- INSERT INTO job (status) VALUES (?)", "- REPLACE INTO job (id, status) VALUES (?, ?)"),
    "upsert-reads-fill": Example(
        "(state) VALUES (?)", "(state) VALUES (?) ON DUPLICATE KEY UPDATE state = COALESCE(VALUES(state), state)"
    ),
    "old-names-new": Example("- INSERT INTO job (status) VALUES (?)", "- UPDATE job SET state = ? WHERE id = ?"),
    "gate-drift": Example("gates: [drift]", "gates: []"),
    "mark-left": Example("name: clean\n", 'name: clean\nwhy: "?? why the change is made"\n'),
    "before-unsaid": Example(", before: {columns: [{name: id, type: bigint, null: false}]}}", "}"),
    "waiver-without-end": Example(', until: "2099-12-31"}', "}"),
}
