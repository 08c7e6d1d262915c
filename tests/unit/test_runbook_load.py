"""The loader is strict: what is not understood is a finding with its line, never a guess and never a traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchestrator.errors import Exit, RunbookError
from orchestrator.model.contract import Copy, Default, Expression, Unmapped, ValueMap
from orchestrator.model.findings import FileFindings
from orchestrator.runbook.difference import explain_difference
from orchestrator.runbook.load import load, parse
from orchestrator.runbook.schema import schema_text
from orchestrator.runbook.shorten import shorten, write_short_copy

RUNBOOKS = Path(__file__).resolve().parents[2] / "runbooks"
SMALL = """\
apiVersion: rollout/v1
name: small
table: {schema: app, name: job}
contract:
  columns:
    - {name: state, type: varchar(32)}
    - {name: tries, type: int, null: false, default: 0}
mappings:
  - old: status
    new: state
    forward: {values: {new: pending, done: ok}}
    backward: {values: {pending: new, ok: done, held: new}}
"""


def findings(text: str) -> tuple[FileFindings, dict[int, list[str]]]:
    with pytest.raises(FileFindings) as caught:
        parse(text, "x.yaml")
    lines: dict[int, list[str]] = {}
    for finding in caught.value.findings:
        lines.setdefault(finding.line, []).append(finding.seen)
    return caught.value, lines


def assert_refused(text: str, line: int, *words: str) -> FileFindings:
    """The text is refused, the first finding is on that line, and it says all the words in its three parts."""
    error, _ = findings(text)
    first = error.findings[0]
    assert error.exit_code is Exit.RUNBOOK
    assert error.seen.startswith(f"x.yaml:{line}: "), error.seen
    said = " ".join((first.seen, first.expected, first.next))
    for word in words:
        assert word in said
    assert first.expected
    assert first.next
    return error


@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_every_shipped_runbook_loads(path: Path) -> None:
    runbook = load(path)
    assert runbook.id == path.stem
    assert runbook.text == path.read_text()
    assert re.fullmatch("[0-9a-f]{64}", runbook.digest)


def test_the_schema_for_editors_is_current() -> None:
    assert (RUNBOOKS / "schema.json").read_text() == schema_text(), "run: python -m orchestrator.runbook"


def test_every_runbook_opens_with_its_schema_and_every_key_of_it_is_described() -> None:
    for path in RUNBOOKS.glob("*.yaml"):
        assert path.read_text().startswith("# yaml-language-server: $schema=schema.json\n"), path.name
    schema = json.loads(schema_text())
    forms = {"": schema, **schema["$defs"]}
    keys = [(name, key, of) for name, form in forms.items() for key, of in form.get("properties", {}).items()]
    assert [(name, key) for name, key, of in keys if not of.get("description", "").endswith(".")] == []


def test_every_key_is_in_the_reference() -> None:
    reference = (RUNBOOKS.parent / "docs" / "runbook.md").read_text()
    schema = json.loads(schema_text())
    keys = {k for form in [schema, *schema["$defs"].values()] for k in form.get("properties", {})}
    assert [k for k in sorted(keys) if f"`{k}`" not in reference] == []


class TestFile:
    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(RunbookError) as caught:
            load(tmp_path / "no.yaml")
        assert "no.yaml: there is no such file" in caught.value.seen
        assert caught.value.exit_code is Exit.RUNBOOK

    def test_a_directory_is_no_runbook(self, tmp_path: Path) -> None:
        with pytest.raises(RunbookError) as caught:
            load(tmp_path)
        assert "directory" in caught.value.seen

    @pytest.mark.parametrize(
        ("raw", "line", "word"),
        [
            (b"", 1, "empty"),
            (b"# only a comment\n", 1, "empty"),
            (b"name: x\nwhy: caf\xe9\n", 2, "UTF-8"),
            (b"\xff\xfea\x00", 1, "UTF-8"),
            (b"x" * 1_048_577, 1, "larger"),
            (b"a: 1\nb: \x00", 2, "0x0000"),
        ],
    )
    def test_bytes_that_are_no_runbook(self, tmp_path: Path, raw: bytes, line: int, word: str) -> None:
        path = tmp_path / "r.yaml"
        path.write_bytes(raw)
        with pytest.raises(FileFindings) as caught:
            load(path)
        assert caught.value.seen.startswith(f"{path}:{line}: ")
        assert word in caught.value.seen

    def test_an_unreadable_path_is_an_error_of_ours(self) -> None:
        with pytest.raises(RunbookError):
            load(Path("a\0b"))

    def test_byte_order_mark_and_dos_lines_change_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "r.yaml"
        path.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
        assert load(path).contract == parse(SMALL, "x").contract
        assert load(path).text == SMALL


class TestYaml:
    @pytest.mark.parametrize(
        ("text", "line", "word"),
        [
            ("a: [b", 1, "not YAML"),
            ("a: b\n  c: d\n", 2, "not YAML"),
            ("a:\n\t- b\n", 2, "tab"),
            ("- a\n", 1, "not a mapping"),
            ("just words", 1, "not a mapping"),
            ("a: *x", 1, "alias"),
            ("a: &x [*x]", 1, "alias"),
            ("a: b\n---\nc: d\n", 2, "second YAML document"),
            ("a: !!int 3", 1, "tag"),
            ("a: !python/object:os.system x", 1, "tag"),
            ("? [a]\n: b", 1, "as a key"),
            ('a: b\nc: "\\ud800"', 2, "no whole character"),
            ('"\\udfff": b', 1, "no whole character"),
            ("a: b\nc: d\u2028e", 2, "\\u2028, which nobody sees"),
            ("a: b\nc: d\x01e", 2, "0x0001 cannot be in YAML"),
            ("[" * 5000, 1, "deeper"),
            ("a: " + "{b: " * 40, 1, "deeper"),
        ],
    )
    def test_what_is_no_runbook_at_all(self, text: str, line: int, word: str) -> None:
        assert_refused(text, line, word)

    def test_aliases_are_allowed(self) -> None:
        text = SMALL.replace("{name: state,", "&c {name: state,").replace(
            "\nmappings", "\n  changes: []\nx-unused: *c\nmappings"
        )
        _, lines = findings(text)
        assert [s for seen in lines.values() for s in seen] == ["unknown key 'x-unused'"]

    def test_aliases_cannot_blow_up(self) -> None:
        bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
            f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 12)
        )
        assert_refused(bomb, 5, "more than")

    def test_a_duplicate_key_is_an_error_on_its_second_line(self) -> None:
        assert_refused(SMALL + "name: other\n", 13, "duplicate key 'name'", "line 2")

    def test_keys_that_are_not_text_are_named_with_the_advice_to_quote(self) -> None:
        keys = ["NO", "on", "null", "0123", "1e3", "12:30:45", "2024-01-01", "1.10", "true", "~", "7", "0x1F", "y"]
        entries = "".join(f"\n        {k}: v{i}" for i, k in enumerate(keys))
        text = SMALL.replace("{values: {new: pending, done: ok}}", "\n      values:" + entries)
        error, lines = findings(text)
        for i, key in enumerate(keys):
            assert any(key in s for s in lines[13 + i]), key
        assert all(f'quote it: "{key}"' in {f.next for f in error.findings} for key in keys)

    def test_the_same_keys_quoted_are_texts(self) -> None:
        keys = ["NO", "on", "null", "0123", "1e3", "12:30:45", "2024-01-01", "1.10"]
        forward = ", ".join(f'"{k}": ok' for k in keys)
        runbook = parse(SMALL.replace("new: pending, done: ok", forward + ", done: ok"), "x")
        assert isinstance(runbook.contract.mappings[0].forward, ValueMap)
        assert [k for k, _ in runbook.contract.mappings[0].forward.values] == [*keys, "done"]

    @pytest.mark.parametrize("word", ["yes", "off", "1.10", "0123", "1e3", "2024-01-01", "true"])
    def test_the_right_side_of_a_value_map_is_not_guessed_either(self, word: str) -> None:
        assert_refused(SMALL.replace("done: ok}", f"done: {word}}}"), 11, word, "quote it")

    def test_whole_numbers_and_null_may_stand_on_the_right(self) -> None:
        runbook = parse(SMALL.replace("done: ok}", "done: 7, gone: ~, void: null}"), "x")
        forward = runbook.contract.mappings[0].forward
        assert isinstance(forward, ValueMap)
        assert forward.values[1:] == (("done", "7"), ("gone", None), ("void", None))

    def test_nothing_on_the_right_is_not_null(self) -> None:
        assert_refused(SMALL.replace("done: ok}", "done: }"), 11, "nothing after the key", "~")

    def test_null_of_the_old_column_has_a_key_of_its_own(self) -> None:
        runbook = parse(SMALL.replace("done: ok}}", "done: ok}, null_value: pending}"), "x")
        forward = runbook.contract.mappings[0].forward
        assert isinstance(forward, ValueMap)
        assert forward.values[-1] == (None, "pending")


class TestKeys:
    @pytest.mark.parametrize(
        ("old", "new", "line", "words"),
        [
            ("name: small", "nmae: small", 1, ("'name' is missing",)),
            ("{name: state, type: varchar(32)}", "{name: state, tpye: int}", 6, ("'type'",)),
            ("forward:", "forwards:", 9, ("'forward' is missing",)),
            ("rollout/v1", "rollout/v2", 1, ("rollout/v1",)),
            ("name: small", "name: Small Thing", 2, ("name",)),
            ("name: small", "name: 7", 2, ("a text",)),
            ("null: false", "null: 0", 7, ("true or false",)),
            ("type: int", "type: integr", 7, ("integr",)),
            ("type: varchar(32)", "type: varchar(32) not null", 6, ("not",)),
            ("type: varchar(32)", "type: decimal(10,2)", 6, ("comma", "quote it")),
            ("type: int", "type: varchar", 7, ("length",)),
            ("default: 0", "default: [0]", 7, ("default",)),
            ("new: state", "new: stat", 10, ("not added by the contract",)),
            ("name: tries", "name: STATE", 7, ("twice",)),
            ("{name: state,", '{name: "",', 6, ("name",)),
            ("{name: state,", '{name: "a ",', 6, ("blank",)),
            ("{name: state,", '{name: "\U0001f600",', 6, ("character",)),
            ("values: {new: pending, done: ok}", "sql: ' '", 11, ("empty",)),
            ("values: {new: pending, done: ok}", "sql: status, unmapped: keep", 11, ("sql beside",)),
            ("values: {new: pending, done: ok}", "unmapped: keep", 11, ("neither",)),
            ("values: {new: pending, done: ok}", "values: {}", 11, ("values",)),
            ("    forward: {", "    follows: true\n    forward: {", 11, ("follows",)),
            ("  - old: status\n    new", "  - new", 9, ("old",)),
        ],
    )
    def test_a_wrong_key_or_value_is_named_with_its_line(
        self, old: str, new: str, line: int, words: tuple[str, ...]
    ) -> None:
        assert old in SMALL
        assert_refused(SMALL.replace(old, new, 1), line, *words)

    @pytest.mark.parametrize(
        ("written", "meant"),
        [("ownr: me", "owner"), ("contact: {}", "contract"), ("gate: []", "gates"), ("mapings: []", "mappings")],
    )
    def test_an_unknown_key_comes_with_the_nearest_known_one(self, written: str, meant: str) -> None:
        assert_refused(SMALL + written + "\n", 13, "unknown key", f"did you mean '{meant}'?")

    @pytest.mark.parametrize("key", ["<", "<word>", "<form>", "<list>", "[key]", "''", ".", "a.b"])
    def test_no_odd_key_confuses_the_place(self, key: str) -> None:
        quoted = key if key == "''" else f"'{key}'"
        assert_refused(SMALL + f"{quoted}: 1\n", 13, "unknown key")
        text = SMALL.replace("{values: {new: pending, done: ok}}", f"{{{quoted}: 1}}")
        _, lines = findings(text)
        assert list(lines) == [11]
        assert "unknown key" in lines[11][0]

    def test_an_unknown_key_deep_inside_too(self) -> None:
        assert_refused(
            SMALL + "phases:\n  read_switch:\n    holds: 5s\n", 15, "phases.read_switch", "did you mean 'hold'?"
        )
        assert_refused(SMALL.replace("{values: {new", "{value: {new"), 11, "did you mean 'values'?")

    @pytest.mark.parametrize(
        ("settings", "line", "words"),
        [
            ("phases: {verify: {soak: 30}}", 13, ("bare number 30", "30s")),
            ("phases: {verify: {soak: '30'}}", 13, ("bare number", "30s")),
            ("phases: {verify: {soak: 0.5}}", 13, ("bare number 0.5",)),
            ("phases: {verify: {soak: 5 parsecs}}", 13, ("unknown unit 'parsecs'", "ms, s, m, h, d")),
            ("phases: {verify: {soak: -5s}}", 13, ("not a duration",)),
            ("phases: {verify: {soak: soon}}", 13, ("not a duration",)),
            ("phases: {verify: {soak: 400d}}", 13, ("longer than a year",)),
            ("phases: {verify: {soak: true}}", 13, ("not a duration",)),
            ("phases: {verify: {soak: [5s]}}", 13, ("a list is not a duration",)),
            ("phases: {read_switch: {percent: [5, 1, 100]}}", 13, ("does not rise",)),
            ("phases: {read_switch: {percent: [1, 50]}}", 13, ("ends at 50",)),
            ("phases: {read_switch: {percent: [0, 100]}}", 13, ("1 to 100",)),
            ("phases: {read_switch: {percent: [50, 101]}}", 13, ("1 to 100",)),
            ("phases: {read_switch: {percent: []}}", 13, ("percent",)),
            ("phases: {read_switch: {ttl: 2s, poll: 1s}}", 13, ("ttl 2s is shorter than 3s",)),
            ("phases: {read_switch: {ttl: 20s, poll: 10s}}", 13, ("ttl 20s is shorter than 30s",)),
            ("phases: {read_switch: {poll: 0s}}", 13, ("poll is 0",)),
            ("phases: {read_switch: {gates: [drift, errs]}}", 13, ("'errs'", "not defined")),
            ("checks: {throttle: [p99]}", 13, ("'p99'", "is not there")),
            ("checks: {throttle: [drift]}", 13, ("'drift'", "is not there")),
            (
                "gates: [{name: e, sql: SELECT 1, max_increase: 10%}]\nchecks: {throttle: [e]}",
                14,
                ("'e'", "is judged by a baseline"),
            ),
            ("phases: {read_switch: {gates: [drift, drift]}}", 13, ("twice",)),
            ("phases: {ddl: {index_tries: 0}}", 13, ("index_tries",)),
            ("phases:\n", 13, ("nothing (null)",)),
            ("checks: {stall_budget: 11s}", 13, ("20ms to 10s",)),
            ("checks: {disk: {from: remote}}", 13, ("local",)),
            ("checks: {disk: {from: {}}}", 13, ("no source",)),
            ("checks: {replication_lag: 5s}", 13, ("a mapping",)),
            ("gates:\n- {name: drift, sql: SELECT 1, max: 0}", 14, ("named drift",)),
            ("gates:\n- {name: a, max: 0}", 14, ("sql, prometheus or command",)),
            ("gates:\n- {name: a, prometheus: up}", 14, ("no limit",)),
            ("gates:\n- {name: mirror, sql: SELECT 1, max: 0}", 14, ("exists by itself",)),
            ("gates:\n- {name: a, sql: SELECT 1, max: 0, min_sample_size: 5}", 14, ("without the other",)),
            ("prometheus: {url: 'http://me:secret@prometheus'}", 13, ("url",)),
            ("gates:\n- {name: a, sql: SELECT 1}", 14, ("no limit",)),
            ("gates:\n- {name: a, sql: SELECT 1, max: '0'}", 14, ("not a number",)),
            ("gates:\n- {name: a, sql: SELECT 1, max: 0, max_increase: 10%}", 14, ("max and max_increase",)),
            ("gates:\n- {name: a, sql: SELECT 1, max_increase: 10}", 14, ("not a share", "10%")),
            ("gates:\n- {name: a, sql: SELECT 1, max: 0, failure_limit: 6}", 14, ("failure_limit 6 is above count 5",)),
            ("gates:\n- {name: a, sql: S, max: 0, count: 2, failure_limit: 1}", 14, ("inconclusive_limit 3 is above",)),
            ("gates:\n- {name: a, sql: S, max: 0}\n- {name: a, sql: S, max: 0}", 15, ("twice",)),
            ("waivers:\n- {rule: a, reason: b, until: '2031-02-30'}", 14, ("calendar",)),
            ("waivers:\n- {rule: a, reason: b, until: tomorrow}", 14, ("until",)),
            ("phases: {read_switch: {driver: flagd, on_watcher_loss: stay}}", 13, ("without a part flagd",)),
            ("phases: {read_switch: {driver: flagd, flagd: {file: /f}}}", 13, ("on_watcher_loss: back",)),
            ("phases: {read_switch: {flagd: {file: /f}}}", 13, ("with a part flagd",)),
            ("phases: {read_switch: {driver: flagd, flagd: {file: f}}}", 13, ("flagd.file",)),
            (
                'phases: {read_switch: {driver: command, command: {program: "\'"}, on_watcher_loss: stay}}',
                13,
                ("cannot be called",),
            ),
            (
                "phases: {read_switch: {driver: command, command: {program: x, timeout: 11s}, on_watcher_loss: stay}}",
                13,
                ("cannot be called", "up to 10 s"),
            ),
            ("notify: {command: 'a \"b'}", 13, ("cannot be split",)),
            ("replicas: [db-2]", 13, ("db-2",)),
            ("replicas: {}", 13, ("neither",)),
            ("replicas: {none: ''}", 13, ("none",)),
            ("applications: {old: ['; ']}", 13, ("empty statement",)),
            ("invariants: [{name: a, sql: 'x > 0'}, {name: A, sql: 'x > 1'}]", 13, ("twice",)),
        ],
    )
    def test_a_setting_that_cannot_be_meant(self, settings: str, line: int, words: tuple[str, ...]) -> None:
        assert_refused(SMALL + settings + "\n", line, *words)

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda t: t + "phases: {ddl: {engine: spirit}}\n", ("not supported", "auto")),
            (lambda t: t + "phases: {shadow_write: {driver: proxy}}\n", ("not supported", "triggers")),
            (lambda t: t.replace("default: 0", "auto_increment: true"), ("AUTO_INCREMENT",)),
            (lambda t: t.replace("default: 0", "on_update: true"), ("ON UPDATE",)),
            (
                lambda t: t.replace("mappings:", "  indexes: [{name: i, columns: [a], type: spatial}]\nmappings:"),
                ("SPATIAL", "btree"),
            ),
        ],
    )
    def test_what_is_not_supported_says_so_and_what_is(
        self, change: Callable[[str], str], words: tuple[str, ...]
    ) -> None:
        error, _ = findings(change(SMALL))
        said = " ".join(f"{f.seen} {f.expected} {f.next}" for f in error.findings)
        assert "not supported" in said
        for word in words:
            assert word in said

    def test_all_findings_are_told_together_in_the_order_of_the_file(self) -> None:
        text = SMALL.replace("null: false", "null: 3") + "phases: {verify: {soak: 5}}\nownr: me\n"
        error, lines = findings(text)
        assert sorted(lines) == [7, 13, 14]
        assert [line.split(":")[1] for line in error.seen.splitlines()] == ["7", "13", "14"]
        assert error.expected == error.findings[0].expected


class TestMeaning:
    def test_what_is_left_out_has_the_values_of_the_specification(self) -> None:
        runbook = parse(SMALL, "x")
        assert (runbook.phases.percents, runbook.phases.ttl_s, runbook.phases.gates) == (
            (1, 5, 25, 50, 100),
            90.0,
            ("drift",),
        )
        assert (runbook.limits.stall_budget_s, runbook.limits.max_wait_s) == (0.25, 600.0)
        assert runbook.replicas.kind == "discover"
        assert runbook.notify == ()

    def test_units_become_seconds(self) -> None:
        settings = "phases: {backfill: {target_time: 120ms}, read_switch: {hold: 1.5m, ttl: 2h}, finish: {quiet: 1d}}\n"
        phases = parse(SMALL + settings, "x").phases
        assert (phases.target_time_s, phases.hold_s, phases.ttl_s, phases.finish_quiet_s) == (
            0.12,
            90.0,
            7200.0,
            86400.0,
        )

    @pytest.mark.parametrize(
        ("kind", "written", "meant"),
        [
            ("int", "0", Default("0")),
            ("int", "'007'", Default("7")),
            ("int", "true", Default("1")),
            ("decimal(10,2)", "1", Default("1.00")),
            ("decimal(10,2)", "'1.5'", Default("1.50")),
            ("varchar(9)", "now(3)", Default("now(3)")),
            ("varchar(9)", "''", Default("")),
            ("varchar(9)", "no", Default("no")),
            ("datetime(3)", "now(3)", Default("CURRENT_TIMESTAMP(3)", True)),
            ("datetime(3)", "CURRENT_TIMESTAMP(3)", Default("CURRENT_TIMESTAMP(3)", True)),
            ("datetime", "now()", Default("CURRENT_TIMESTAMP", True)),
            ("datetime(3)", "{sql: Now( 3 )}", Default("CURRENT_TIMESTAMP(3)", True)),
            ("datetime(3)", "'2030-01-31'", Default("2030-01-31 00:00:00.000")),
            ("json", "{sql: JSON_ARRAY()}", Default("(JSON_ARRAY())", True)),
            ("int", "~", None),
        ],
    )
    def test_a_default_has_one_spelling(self, kind: str, written: str, meant: Default | None) -> None:
        text = SMALL.replace("type: int, null: false, default: 0", f"type: '{kind}', default: {written}")
        assert parse(text, "x").contract.columns[1].default == meant

    @pytest.mark.parametrize(("kind", "written"), [("varchar(9)", "0"), ("varchar(9)", "1.10"), ("varchar(9)", "true")])
    def test_a_number_is_no_default_of_a_text(self, kind: str, written: str) -> None:
        assert_refused(
            SMALL.replace("type: int, null: false, default: 0", f"type: {kind}, default: {written}"), 7, "quote it"
        )

    def test_index_parts_and_references_are_read_whole(self) -> None:
        text = SMALL.replace(
            "mappings:",
            """\
  indexes:
    - {name: i, columns: ["state(10) DESC", "`odd (name)`", plain], unique: true, visible: false}
  foreign_keys:
    - {name: f, columns: [tries, state], references: "other.`the parent`(a, `b`)", on_delete: set null}
mappings:""",
        )
        contract = parse(text, "x").contract
        parts = [(p.column, p.prefix, p.descending) for p in contract.indexes[0].parts]
        assert parts == [("state", 10, True), ("odd (name)", None, False), ("plain", None, False)]
        key = contract.foreign_keys[0]
        assert (str(key.references), key.referenced_columns) == ("other.the parent", ("a", "b"))
        assert (key.on_delete, key.on_update) == ("SET NULL", "RESTRICT")

    def test_each_kind_of_mapping(self) -> None:
        text = SMALL + (
            "  - {old: n, new: tries, forward: copy, backward: {sql: tries - 1}}\n".replace("n,", "'n',", 1)
        )
        pair, copied = parse(text, "x").contract.mappings
        assert pair.is_pair
        assert isinstance(pair.forward, ValueMap)
        assert pair.forward.unmapped is Unmapped.REFUSE
        assert copied.forward == Copy()
        assert copied.backward == Expression("tries - 1")

    def test_a_runbook_that_adds_nothing_is_none(self) -> None:
        assert_refused(
            "apiVersion: rollout/v1\nname: a\ntable: {schema: s, name: t}\ncontract: {}\n", 4, "adds nothing"
        )


class TestDigest:
    def same(self, text: str) -> bool:
        return parse(text, "x").digest == parse(SMALL, "y").digest

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("{name: state, type: varchar(32)}", "{type: 'VARCHAR( 32 )', name: state, null: true, writer: me}"),
            ("type: int, null: false, default: 0", "type: INTEGER(11), default: '0', null: false, retire: later"),
            ("{new: pending, done: ok}", "{done: ok, new: pending}"),
            ("\nname: small", "\nwhy: because\nowner: me\nphases: {verify: {soak: 1s}}\nname: small"),
            ("name: small", "name: other"),
        ],
    )
    def test_spelling_order_and_settings_do_not_matter(self, old: str, new: str) -> None:
        assert old in SMALL
        assert self.same(SMALL.replace(old, new))

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("varchar(32)", "varchar(33)", "columns.state.type: varchar(32) → varchar(33)"),
            ("default: 0", "default: 1", "columns.tries.default: '0' → '1'"),
            ("varchar(32)}", "varchar(32), null: false, default: x}", "columns.state.null: true → false"),
            ("varchar(32)}", "varchar(32), collation: utf8mb4_bin}", "columns.state.collation: (absent) → utf8mb4_bin"),
            ("varchar(32)}", "varchar(32), invisible: true}", "columns.state.invisible: false → true"),
            ("done: ok}", "done: okay}", "mappings.state.forward.values.'done': 'ok' → 'okay'"),
            ("{pending: new,", "{pending: done,", "mappings.state.backward.values.'pending': 'new' → 'done'"),
            ("done: ok}}", "done: ok}, unmapped: keep}", "mappings.state.forward.unmapped: refuse → keep"),
            ("done: ok}}", "done: ok}, match: collation}", "mappings.state.forward.match: exact → collation"),
            ("new: state\n", "new: state\n    on_conflict: old_wins\n", "on_conflict: new_wins → old_wins"),
            ("schema: app", "schema: other", "table.schema: app → other"),
            ("name: job}", "name: job, key: [id]}", 'table.key: [] → ["id"]'),
            ("mappings:", "invariants: [{name: a, sql: x > 0}]\nmappings:", "invariants.a: (absent) → x > 0"),
            ("mappings:", "applications: {old: [SELECT 1]}\nmappings:", "applications.old: (absent) → SELECT 1"),
            ("mappings:", "  indexes: [{name: i, columns: [state]}]\nmappings:", "indexes.i: (absent) → "),
            ("name: tries", "name: attempts", "columns.attempts: (absent) → type int"),
        ],
    )
    def test_each_change_of_the_contract_changes_it_and_is_explained(self, old: str, new: str, said: str) -> None:
        changed = parse(SMALL.replace(old, new, 1), "x")
        assert changed.digest != parse(SMALL, "y").digest
        assert said in explain_difference(SMALL, changed)

    def test_the_order_of_columns_is_physical_and_counts(self) -> None:
        lines = SMALL.splitlines(keepends=True)
        turned = "".join([*lines[:5], lines[6], lines[5], *lines[7:]])
        assert not self.same(turned)
        assert explain_difference(SMALL, parse(turned, "x")) == 'column order: ["state", "tries"] → ["tries", "state"]'

    def test_no_difference_is_said_with_nothing(self) -> None:
        assert explain_difference(SMALL, parse(SMALL.replace("name: small", "name: other"), "x")) == ""

    def test_a_stored_text_that_cannot_be_read_is_said_to_be_so(self) -> None:
        assert "cannot be read by this version" in explain_difference("a: [", parse(SMALL, "x"))


def test_shorten_keeps_contract_and_digest() -> None:
    runbook = load(RUNBOOKS / "aijob.yaml")
    short = shorten(runbook, 3)
    assert (short.contract, short.digest, short.text) == (runbook.contract, runbook.digest, runbook.text)
    phases = short.phases
    waits = (phases.soak_s, phases.hold_s, phases.verify_soak_s, phases.rollback_quiet_s, phases.finish_quiet_s)
    assert max(waits) <= 3
    assert phases.ttl_s >= max(10.0, 3 * phases.poll_s)
    assert all(g.interval_s * g.count <= 3 for g in short.gates)
    assert replace(short, phases=runbook.phases, limits=runbook.limits, gates=runbook.gates) == runbook


@pytest.mark.parametrize("seconds", [1, 3, 10])
@pytest.mark.parametrize("path", sorted(RUNBOOKS.glob("*.yaml")), ids=lambda p: p.stem)
def test_the_short_copy_is_the_shortened_runbook(path: Path, seconds: float, tmp_path: Path) -> None:
    target = tmp_path / "short.yaml"
    copy = write_short_copy(path, target, seconds)
    assert replace(copy, text="", path="") == replace(shorten(load(path), seconds), text="", path="")


def assert_read_or_refused(text: str) -> None:
    """Either a runbook, or findings with a line; any other exception fails the test by itself."""
    found: FileFindings | None = None
    try:
        parse(text, "x.yaml")
    except FileFindings as error:
        found = error
    if found is not None:
        assert re.match(r"x\.yaml:[1-9][0-9]*: ", found.seen)
        assert found.expected
        assert found.next


@given(st.text(max_size=200))
def test_no_text_gives_a_traceback(text: str) -> None:
    assert_read_or_refused(text)


@given(st.text(alphabet="ab:{}[],&*!|>'\"%@`?-#~ \n\t01.\\<", max_size=80))
def test_no_yaml_punctuation_gives_a_traceback(text: str) -> None:
    assert_read_or_refused(text)


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.sampled_from(
        ["", "copy", "5s", "0123", "1e999", "now(3)", "varchar(", "enum('a'", "*x", "\u2028", "a" * 300, "!t"]
    ),
    st.text(max_size=12),
)


@given(st.data())
def test_no_damage_to_a_real_runbook_gives_a_traceback(data: st.DataObject) -> None:
    """Lines of the shipped runbook are dropped, doubled, moved, cut, or get another value."""
    lines = (RUNBOOKS / data.draw(st.sampled_from(["template.yaml", "documents.yaml"]))).read_text().split("\n")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.integers(0, 4)):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, lines[at])
            case 2:
                lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
            case 3:
                key = lines[at].partition(":")[0]
                lines[at] = f"{key}: {data.draw(_SCALARS)}"
            case 4:
                lines[at] = data.draw(st.text(max_size=3)) + lines[at]
    assert_read_or_refused("\n".join(lines))
