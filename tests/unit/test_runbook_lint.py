"""Lint from the file alone: each rule has a breach that it finds, on its line, and a waiver that is kept or refused."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.model.types import parse_type
from orchestrator.model.verdict import ProblemKind
from orchestrator.runbook.examples import BASE, EXAMPLES
from orchestrator.runbook.fit import literal_problem
from orchestrator.runbook.lint import find, lint
from orchestrator.runbook.load import load, parse
from orchestrator.runbook.rules import RULES, Severity
from orchestrator.runbook.rules_doc import rules_page

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
CLEAN = """\
apiVersion: rollout/v1
name: clean
table: {schema: app, name: job}
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
  - {old: n, new: tries, forward: {sql: n + 1}, backward: {sql: tries - 1}}
  - {new: kind, forward: {sql: "'x'"}}
invariants:
  - {name: tries, sql: tries >= 0}
applications:
  old:
    - INSERT INTO job (status) VALUES (?)
  new:
    - INSERT INTO job (state) VALUES (?)
""".replace("{old: n,", '{old: "n",')

BREACHES = [
    ("new-column-not-null", "tries, type: int, null: false, default: 0", "tries, type: int, null: false", 7),
    ("default-expression", "name: kind, type: varchar(9)", "name: kind, type: varchar(36), default: {sql: HEX(1)}", 8),
    ("default-unsafe", "type: text", "type: varchar(36), default: {sql: UUID()}", 10),
    ("generated-column", "type: text", "type: int, generated: n + 1, default: 3", 10),
    ("generated-mapped", "name: kind, type: varchar(9)", "name: kind, type: varchar(9), generated: n + 1", 8),
    ("default-not-allowed", "type: text", "type: text, default: ''", 10),
    ("default-not-allowed", "type: text", "type: json, default: '[]'", 10),
    ("default-unfit", "default: 0", "default: 2147483648", 7),
    ("default-unfit", "default: 0", "default: zero", 7),
    ("default-unfit", '"decimal(6,2)"', '"decimal(6,2)", default: 1.125', 11),
    ("default-unfit", '"decimal(6,2)"', "datetime(3), default: now()", 11),
    ("default-unfit", '"decimal(6,2)"', "datetime(3), default: '2031-02-30'", 11),
    ("default-unfit", '"decimal(6,2)"', "date, default: {sql: now()}", 11),
    ("default-unfit", '"decimal(6,2)"', "\"enum('a','b')\", default: c", 11),
    ("charset-of-column", "type: bigint", "type: bigint, charset: latin1", 9),
    ("charset-of-column", "type: text", "type: text, charset: latin1, collation: utf8mb4_bin", 10),
    ("change-not-widening", "  indexes:", "  changes:\n    - {name: old_n, type: bigint}\n  indexes:", 13),
    ("index-part", "columns: [state]", "columns: [note]", 14),
    ("index-part", "columns: [state]", "columns: [tries(4)]", 14),
    ("index-part", "columns: [state]", "columns: [state(10)]", 14),
    ("index-too-long", "name: state, type: varchar(9)", "name: state, type: varchar(769)", 14),
    ("index-twice", "columns: [state]", "columns: [parent]", 14),
    ("foreign-key-index", "columns: [parent]}\n    - {name: job_s", "columns: [tries]}\n    - {name: job_s", 16),
    ("set-null-not-null", "type: bigint", "type: bigint, null: false, default: 0", 16),
    ("self-reference-cascade", "references: box(id)", "references: job(id)", 16),
    (
        "self-reference-cascade",
        "references: box(id), on_delete: set null",
        "references: job(id), on_update: cascade",
        16,
    ),
    ("partner-constrained", "columns: [state]", "columns: [owner, state], unique: true", 14),
    ("partner-constrained", "columns: [state]", "columns: [owner, status], unique: true", 14),
    ("partner-constrained", "name: job_parent_fk, columns: [parent]", "name: job_parent_fk, columns: [kind]", 16),
    ("pairs-share-old", '{old: "n",', "{old: status,", 22),
    ("mapping-chain", '{old: "n",', "{old: parent,", 22),
    ("mapping-chain", "sql: n + 1", "sql: n + parent", 22),
    ("pair-blind", "sql: n + 1", "sql: m + 1", 22),
    ("pair-blind", "sql: tries - 1", "sql: try - 1", 22),
    ("backward-not-total", "ok: done, held", "okay: done, held", 21),
    ("backward-not-total", "state, type: varchar(9)", "state, type: \"enum('pending','ok','held','gone')\"", 21),
    ("round-trip", "ok: done, held", "ok: new, held", 21),
    ("round-trip", "ok: done, held", "ok: void, held", 21),
    ("value-unfit", "done: ok}", "done: ok, void: abandoned!}", 18),
    ("value-unfit", "held: new}", "halted-for-good: new}", 18),
    ("null-into-not-null", "state, type: varchar(9)", "state, type: varchar(9), null: false, default: ok", 20),
    ("default-outside-mapping", "state, type: varchar(9)", "state, type: varchar(9), default: none", 18),
    ("derived-not-null", "name: kind, type: varchar(9)", "name: kind, type: varchar(9), null: false, default: ''", 23),
    ("expression-of-the-row", "sql: n + 1", "sql: n + RAND()", 22),
    ("expression-of-the-row", "sql: n + 1", "sql: (SELECT MAX(n) FROM job)", 22),
    ("expression-of-the-row", "sql: n + 1", "sql: n + @x", 22),
    ("expression-of-the-row", "sql: n + 1", "sql: n + ?", 22),
    ("expression-of-the-row", "sql: tries >= 0", "sql: tries >= 0 OR seen_at < NOW(3)", 25),
    ("statement-single", "INSERT INTO job (status) VALUES (?)", "DELETE FROM job; DELETE FROM box", 28),
    ("insert-without-columns", "INSERT INTO job (status) VALUES (?)", "INSERT INTO job VALUES (?, ?)", 28),
    ("insert-without-columns", "INSERT INTO job (status) VALUES (?)", "INSERT IGNORE app.job SELECT * FROM box", 28),
    ("replace-resets", "INSERT INTO job (status) VALUES (?)", "REPLACE INTO job (id, status) VALUES (?, ?)", 28),
    ("replace-resets", "INSERT INTO job (state) VALUES (?)", "REPLACE job SET id = ?, state = ?", 30),
    (
        "upsert-reads-fill",
        "(state) VALUES (?)",
        "(state) VALUES (?) ON DUPLICATE KEY UPDATE state = COALESCE(VALUES(state), state)",
        30,
    ),
    ("old-names-new", "INSERT INTO job (status) VALUES (?)", "UPDATE job SET state = ? WHERE id = ?", 28),
    ("rename-in-place", "  indexes:", "  renames: [{old: owner, new: tenant, way: rename}]\n  indexes:", 12),
    ("rename-evidence", "  indexes:", "  renames: [{old: owner, new: tenant, way: rename}]\n  indexes:", 12),
    ("rename-fits", "  indexes:", "  renames: [{old: owner, new: state, way: map}]\n  indexes:", 12),
    ("mark-left", "name: clean", "name: clean # ?? which name", 2),
    ("gate-drift", "invariants:", "phases: {read_switch: {gates: []}}\ninvariants:", 24),
]


def test_the_clean_runbook_is_clean() -> None:
    assert lint(parse(CLEAN, "x.yaml")) == ()


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_runbook_lints_clean(path: Path) -> None:
    assert lint(load(path)) == ()


def test_every_rule_has_a_breach_here() -> None:
    assert {rule for rule, *_ in BREACHES} == {r.id for r in RULES.values() if r.severity is Severity.ERROR}


def test_every_rule_has_an_example_that_keeps_it_and_one_that_breaks_it() -> None:
    """What docs/rules.md shows is what lint says, on the line that is shown."""
    assert set(EXAMPLES) == set(RULES)
    assert find(parse(BASE, "x.yaml")) == ()
    for rule, example in EXAMPLES.items():
        assert BASE.count(example.good) == 1, rule
        found = [f for f in find(parse(example.text, "x.yaml")) if f.rule.id == rule]
        assert found, rule
        assert found[0].line > 0
        assert found[0].refuses == (RULES[rule].severity is Severity.ERROR)


def test_the_page_of_the_rules_is_current() -> None:
    assert (RUNBOOKS.parent / "docs" / "rules.md").read_text(encoding="utf-8") == rules_page()


def test_a_warning_refuses_nothing_and_a_waived_error_is_still_told() -> None:
    text = EXAMPLES["before-unsaid"].text.replace("type: int, null: false, default: 0", "type: int, null: false")
    waived = text.replace("rule: index-blocks-writes", "rule: new-column-not-null")
    assert {f.rule.id for f in find(parse(waived, "x.yaml"))} == {"before-unsaid", "new-column-not-null"}
    assert lint(parse(waived, "x.yaml")) == ()
    assert [p.rule for p in lint(parse(text, "x.yaml"))] == ["new-column-not-null"]


def broken(rule: str, old: str, new: str) -> str:
    assert old in CLEAN
    text = CLEAN.replace(old, new, 1)
    return text.replace("done: ok}", "done: ok, void: ~}") if rule == "null-into-not-null" else text


@pytest.mark.parametrize(("rule", "old", "new", "line"), BREACHES)
def test_a_breach_is_found_on_its_line(rule: str, old: str, new: str, line: int) -> None:
    problems = [p for p in lint(parse(broken(rule, old, new), "x.yaml")) if p.rule == rule]
    assert problems, f"{rule} was not found"
    assert problems[0].seen.startswith(f"x.yaml:{line}: "), problems[0].seen
    assert problems[0].kind is ProblemKind.RUNBOOK
    assert problems[0].expected.startswith(RULES[rule].law)
    assert problems[0].next == RULES[rule].mend


@pytest.mark.parametrize(("rule", "old", "new", "line"), BREACHES)
def test_a_waiver_counts_until_its_day_and_never_for_a_law_of_mappings(
    rule: str, old: str, new: str, line: int
) -> None:
    waiver = f"waivers: [{{rule: {rule}, reason: known, until: '2031-01-31'}}]\n"
    runbook = parse(broken(rule, old, new) + waiver, "x.yaml")
    rules = {p.rule for p in lint(runbook, date(2031, 1, 31))}
    assert (rule in rules) is not RULES[rule].waivable
    late = [p for p in lint(runbook, date(2031, 2, 1)) if p.rule == rule]
    assert late
    assert ("ended on 2031-01-31" if RULES[rule].waivable else "cannot be waived") in late[0].seen


def test_the_cascade_of_the_shipped_runbook_is_found_and_waived_by_name() -> None:
    runbook = load(RUNBOOKS / "aijob.yaml")
    (problem,) = lint(replace(runbook, waivers=()))
    assert problem.rule == "self-reference-cascade"
    assert "AiAnalysisJob_parentJobId_fkey" in problem.seen
    waiver = runbook.waived("self-reference-cascade")
    assert waiver is not None
    assert "6575" in waiver.evidence


def test_problems_stand_in_the_order_of_the_file() -> None:
    text = CLEAN
    for old, new in (("default: 0", "default: zero"), ("sql: n + 1", "sql: n + RAND()"), ("[state]", "[note]")):
        text = text.replace(old, new)
    assert [p.seen.split(":")[1] for p in lint(parse(text, "x.yaml"))] == ["7", "14", "22"]


@pytest.mark.parametrize(
    "statement",
    [
        "REPLACE INTO box (id) SELECT id FROM job",
        "INSERT INTO box SELECT * FROM job",
        "INSERT INTO job () VALUES ()",
        "INSERT INTO job SET status = 'job values (?)'",
        "INSERT INTO `job` (`status`) VALUES (';')",
        "UPDATE box SET state = ? WHERE id = ?",
        "INSERT INTO job (status) VALUES (?) ON DUPLICATE KEY UPDATE status = VALUES(status)",
    ],
)
def test_statements_that_are_fine_are_not_blamed(statement: str) -> None:
    text = CLEAN.replace("    - INSERT INTO job (status) VALUES (?)", f'    - "{statement}"')
    assert lint(parse(text, "x.yaml")) == ()


@pytest.mark.parametrize(
    ("kind", "fits", "unfit"),
    [
        ("tinyint", ["-128", "127"], ["128", "-129", "1.0", "", "x"]),
        ("tinyint unsigned", ["0", "255"], ["-1", "256"]),
        ("bigint unsigned", ["18446744073709551615"], ["18446744073709551616", "9" * 21]),
        ("decimal(4,2)", ["99.99", "-99.99", "1", "1.10"], ["100", "1.234", "nan", "inf", "x"]),
        ("double", ["1e300", "-0.5"], ["x", "nan"]),
        ("varchar(3)", ["", "abc", "äöü", "😀😀😀"], ["abcd"]),
        ("char(3)", ["abc"], ["ab ", "abcd"]),
        ("tinytext", ["x" * 255], ["x" * 256, "ä" * 128]),
        ("enum('a','B')", ["a", "B"], ["b", "", "1"]),
        ("set('a','b')", ["", "a", "a,b"], ["c", "a,c"]),
        ("datetime(3)", ["2031-01-31 12:00:00.123"], ["2031-02-30 00:00:00", "2031-01-31 12:00:00.1234", "soon"]),
        ("date", ["2031-01-31"], ["2031-02-30", "31.1.2031"]),
        ("json", ['{"a": 1}', "null"], ["{", ""]),
        ("binary(2)", ["ab"], ["abc"]),
    ],
)
def test_a_literal_fits_only_unchanged(kind: str, fits: list[str], unfit: list[str]) -> None:
    assert [t for t in fits if literal_problem(t, parse_type(kind), None)] == []
    assert [t for t in unfit if not literal_problem(t, parse_type(kind), None)] == []


@pytest.mark.parametrize(("charset", "text"), [("ascii", "é"), ("latin1", "日"), ("utf8mb3", "😀")])
def test_a_literal_must_be_in_the_character_set(charset: str, text: str) -> None:
    assert literal_problem(text, parse_type("varchar(9)"), charset)
    assert not literal_problem(text, parse_type("varchar(9)"), "utf8mb4")


_WORDS = st.sampled_from(["a", "b", "c", "d"])


@given(forward=st.dictionaries(_WORDS, _WORDS, min_size=1), backward=st.dictionaries(_WORDS, _WORDS, min_size=1))
def test_value_maps_pass_exactly_when_the_laws_hold(forward: dict[str, str], backward: dict[str, str]) -> None:
    """Total: every f(x) is known to b. There and back: f(b(f(x))) = f(x)."""
    total = set(forward.values()) <= set(backward)
    agrees = all(forward.get(backward[n]) == n for n in forward.values() if n in backward)

    def shown(values: dict[str, str]) -> str:
        return "{" + ", ".join(f"{k}: {v}" for k, v in values.items()) + "}"

    text = CLEAN.replace("{new: pending, done: ok}", shown(forward))
    text = text.replace("{pending: new, ok: done, held: new}", shown(backward))
    rules = {p.rule for p in lint(parse(text, "x.yaml"))}
    assert ("backward-not-total" not in rules) == total
    assert ("round-trip" not in rules) == agrees


@given(st.text(alphabet="ab'`\"(),;@?.*+-/ \\#\n", max_size=40))
def test_no_expression_or_statement_gives_a_traceback(sql: str) -> None:
    runbook = parse(CLEAN, "x.yaml")
    pair, other, derived = runbook.contract.mappings
    odd = replace(other, forward=type(other.forward)(sql))  # type: ignore[call-arg, arg-type]  # an Expression
    contract = replace(
        runbook.contract, mappings=(pair, odd, derived), old_statements=(sql,), new_statements=("INSERT " + sql,)
    )
    assert all(p.rule and p.seen and p.expected and p.next for p in lint(replace(runbook, contract=contract)))
