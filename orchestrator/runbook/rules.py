"""What lint knows by name: each rule's law, why it is one, and how to mend a breach. Waivers name these ids."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from orchestrator.runbook.tree import Path


class Severity(Enum):
    """An error refuses the runbook; a warning is told and refuses nothing."""

    ERROR = "error"
    WARNING = "warning"


class Rule(Struct, frozen=True):
    """``waivable``: whether a waiver counts. What the tool's own correctness rests on cannot be waived."""

    id: str
    law: str
    why: str
    mend: str
    waivable: bool = True
    severity: Severity = Severity.ERROR


class Breach(Struct, frozen=True):
    """A rule that is broken at one place of the file: at ``path``, or at ``line`` where no path leads to it."""

    rule: str
    path: Path
    seen: str
    line: int = 0


_ALL = (
    Rule(
        "new-column-not-null",
        "a new column is nullable or has a default",
        "the old application's INSERT does not name it and would fail with 1364",
        "give it a default, or leave out null: false",
    ),
    Rule(
        "default-expression",
        "the default of a mapped column is a literal or CURRENT_TIMESTAMP",
        "the mirror could not tell a value that was given from one that the server computed",
        "use a literal or no default, and let the mapping or the application write the value",
    ),
    Rule(
        "default-unsafe",
        "a default expression gives the same value whenever, wherever and by whomever it is asked",
        "the server refuses it (1674), or each row and each replica gets another value",
        "leave the default out and let it be NULL: a mapping fills old rows with a value made of the row's own key, as"
        " SHA2(id, 256), or nothing does; new rows get theirs from the application. A mapping refuses UUID() too",
        waivable=False,
    ),
    Rule(
        "generated-column",
        "a generated column has an expression, and no default",
        "MySQL refuses it (1221)",
        "write generated: alone, with stored: true where it must be",
        waivable=False,
    ),
    Rule(
        "generated-mapped",
        "no mapping writes a generated column",
        "MySQL refuses every write into one (3105)",
        "leave the mapping out: a VIRTUAL column is INSTANT and needs no backfill",
        waivable=False,
    ),
    Rule(
        "default-not-allowed",
        "no default on TEXT, BLOB, JSON and spatial columns",
        "MySQL refuses it with 1101",
        "leave the default out, or use a VARCHAR",
    ),
    Rule(
        "default-unfit",
        "the default fits the column's type unchanged",
        "MySQL refuses it with 1067",
        "correct the default or the type",
    ),
    Rule(
        "charset-of-column",
        "a character set only on text, and a collation of that character set",
        "MySQL refuses it (1064, 1253)",
        "correct charset and collation, or leave both out: then they are the table's",
    ),
    Rule(
        "change-not-widening",
        "existing columns are only made wider: VARCHAR, VARBINARY, or ENUM and SET with labels at the end",
        "any other change of type copies the table while writes wait",
        "add a new column with a mapping instead, or say in allow_rebuild why the table may be copied",
    ),
    Rule(
        "rename-in-place",
        "no column is renamed in place",
        "whatever still says the old name fails with 1054 from that moment on",
        "write way: mirror with a new column and a mapping `forward: copy, backward: copy`, or way: map; or waive it "
        "with the column's name, a reason and evidence, and prove it: rollout compat",
    ),
    Rule(
        "rename-evidence",
        "a rename in place has a waiver that names its column, with evidence",
        "the waiver claims that nobody says the old name any more, and a claim without evidence is a guess",
        "write evidence: with the columns, and how it is known that no version names them",
        waivable=False,
    ),
    Rule(
        "rename-fits",
        "mirror has the new column and its mapping both ways; map and rename have no new column of that name, and an "
        "in-place rename touches no column of a mapping, an invariant or the key",
        "two names for one column, or one for two, and nobody could say which is meant",
        "write the new column and its mapping, or delete them, as the way says",
        waivable=False,
    ),
    Rule(
        "index-part",
        "TEXT and BLOB are indexed by a prefix, other columns whole, JSON and spatial ones not at all",
        "MySQL refuses it (1170, 1089, 3152)",
        "write name(20) for a text, or leave the column out of the index",
    ),
    Rule(
        "index-too-long",
        "the parts of an index take 3072 bytes at most",
        "MySQL refuses it with 1071",
        "shorten the columns or use prefixes",
    ),
    Rule(
        "index-twice",
        "no two new indexes have the same parts",
        "the second costs every write and serves nothing",
        "delete one of the two",
    ),
    Rule(
        "foreign-key-index",
        "a foreign key on new columns is served by an index that the contract names",
        "the server would add one of its own, under a name that no contract knows",
        "add an index whose first columns are those of the foreign key",
    ),
    Rule(
        "set-null-not-null",
        "SET NULL only on columns that can be NULL",
        "MySQL refuses it with 1830",
        "use restrict or cascade, or leave out null: false",
    ),
    Rule(
        "self-reference-cascade",
        "no foreign key from the table to itself that changes or deletes rows",
        "where a parent's CASCADE reaches this table, deleting that parent fails with 6575 for a chain of four rows or "
        "more (innodb_native_foreign_keys=OFF, the default of 9.x)",
        "use on_delete: restrict, or waive it with the shape of the rows that you have",
    ),
    Rule(
        "partner-constrained",
        "a mapped column is in no new UNIQUE index and no new foreign key",
        "the mirror writes that column: the application's statement could fail, or delete another row, because of it",
        "take the column out of the constraint; or waive it when its counterpart is constrained in the same way",
    ),
    Rule(
        "pairs-share-old",
        "an old column belongs to one pair",
        "two new columns would both write it back, and one would undo the other",
        "make one of the two derived: leave out its backward",
        waivable=False,
    ),
    Rule(
        "mapping-chain",
        "a mapping reads old columns only",
        "what one mapping writes would be what another reads, and the order would decide the value",
        "write the expression over the columns that exist before the rollout",
        waivable=False,
    ),
    Rule(
        "pair-blind",
        "forward reads the old column and backward reads the new one",
        "an expression that does not name it cannot follow its changes",
        "name the column in the expression, or make the mapping derived",
        waivable=False,
    ),
    Rule(
        "backward-not-total",
        "backward knows every value that forward gives and every label that the new column declares",
        "the old application would not see what the new one wrote",
        "add the missing values to backward",
        waivable=False,
    ),
    Rule(
        "round-trip",
        "forward(backward(forward(x))) is forward(x) for every old value",
        "a value that goes there and back would change, and the rows would never agree",
        "let backward give an old value that forward maps to the same new one",
        waivable=False,
    ),
    Rule(
        "value-unfit",
        "every value of a mapping fits its column unchanged",
        "the server would cut or refuse it, and the row could never be filled",
        "correct the value, or widen the column",
        waivable=False,
    ),
    Rule(
        "null-into-not-null",
        "a mapping to NULL needs a column that can be NULL",
        "the row could never be filled",
        "leave out null: false, or map to a value",
        waivable=False,
    ),
    Rule(
        "default-outside-mapping",
        "the new column's default is NULL or a value that backward knows",
        "a row that the new application inserts without naming the column would have no counterpart",
        "add the default to backward, or leave the default out",
    ),
    Rule(
        "derived-not-null",
        "a column that is filled once can be NULL",
        "one that is never NULL cannot show whether it was filled",
        "leave out null: false, or write follows: true",
        waivable=False,
    ),
    Rule(
        "expression-of-the-row",
        "an expression gives one value for one row, whenever and by whomever it is asked",
        "backfill, mirror and verifier must come to the same value",
        "use the row's columns and literals only",
        waivable=False,
    ),
    Rule(
        "statement-single",
        "each declared statement is one statement",
        "it is prepared on its own",
        "write one statement a line",
    ),
    Rule(
        "insert-without-columns",
        "an INSERT names its columns",
        "without a list it fails with 1136 as soon as a column is added",
        "name the columns in the application before the rollout",
    ),
    Rule(
        "replace-resets",
        "REPLACE names every column of the contract",
        "it deletes the row and inserts it again: columns that it does not name fall back to their defaults",
        "use INSERT … ON DUPLICATE KEY UPDATE, or waive it when that version never replaces filled rows",
    ),
    Rule(
        "upsert-reads-fill",
        "an upsert does not take COALESCE(VALUES(n), n) of a mapped column",
        "VALUES(n) holds what the mirror filled in, so the stored value would be replaced by it",
        "let the application decide in ON DUPLICATE KEY UPDATE without asking whether n was given",
    ),
    Rule(
        "old-names-new",
        "the old application's statements name no new column",
        "they would fail with 1054 before the column is added",
        "move the statement to applications.new",
    ),
    Rule(
        "gate-drift",
        "read-switch has the gate drift",
        "readers would move although the columns no longer correspond",
        "add drift to phases.read_switch.gates",
    ),
    Rule(
        "mark-left",
        "no mark of rollout init is left",
        "a mark stands where only a person can say what is meant",
        "answer it and delete the two question marks",
        waivable=False,
    ),
    Rule(
        "before-unsaid",
        "the runbook says how the table stands before",
        "without it drift cannot tell a column of later work from one that was there, and no delete rule is frozen",
        "let rollout init write table.before from the live table or from DDL",
        severity=Severity.WARNING,
    ),
    Rule(
        "waiver-without-end",
        "a waiver says until when it counts",
        "one that never ends outlives the reason that it was given for",
        "write until: with a day",
        severity=Severity.WARNING,
    ),
)
RULES: dict[str, Rule] = {rule.id: rule for rule in _ALL}
