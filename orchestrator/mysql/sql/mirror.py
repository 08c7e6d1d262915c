"""The mirror: one BEFORE INSERT and one BEFORE UPDATE trigger that keep all mappings in step, whoever writes.

A body sets only NEW columns, behind the fit test, and swallows what an expression raises: a statement of the
application that would have passed without it passes with it. It is created under sql_mode '' (the driver sets it).
"""

from __future__ import annotations

import hashlib

from orchestrator.model.contract import TableName
from orchestrator.model.facts import Trigger
from orchestrator.mysql import quote
from orchestrator.mysql.relation import MIRROR_PREFIX, DerivedSql, PairSql, Relation, every
from orchestrator.mysql.rules import Rule
from orchestrator.mysql.tokens import as_shown

_NAME_CHARS = 64
_ANSWER = "corresponds"


def new(column: str) -> str:
    return f"NEW.{quote.name(column)}"


def old(column: str) -> str:
    return f"OLD.{quote.name(column)}"


def trigger_name(rollout_id: str, event: str) -> str:
    """``_rollout_ID_bu`` or ``_rollout_ID_bi``, shortened with a hash where MySQL's 64 characters end."""
    suffix = "_bu" if event.lower() == "update" else "_bi"
    room = _NAME_CHARS - len(MIRROR_PREFIX) - len(suffix)
    if len(rollout_id) > room:
        rollout_id = f"{rollout_id[: room - 9]}_{hashlib.sha256(rollout_id.encode()).hexdigest()[:8]}"
    return f"{MIRROR_PREFIX}{rollout_id}{suffix}"


def create_trigger(relation: Relation, table: TableName, event: str, name: str, tag: str) -> str:
    """The whole CREATE TRIGGER. It follows the application's last trigger for the same event."""
    last = dict(relation.last_triggers).get(event.lower())
    order = f" FOLLOWS {quote.name(last)}" if last else ""
    return (
        f"CREATE {tag} DEFINER = CURRENT_USER TRIGGER {quote.name(table.schema)}.{quote.name(name)} "
        f"BEFORE {event.upper()} ON {quote.table(table)} FOR EACH ROW{order}\n{body(relation, table, event, name)}"
    )


def drop_trigger(table: TableName, name: str, tag: str) -> str:
    return f"DROP {tag} TRIGGER IF EXISTS {quote.name(table.schema)}.{quote.name(name)}"


def same_body(live: Trigger, wanted: str) -> bool:
    """Whether the live trigger does what ``wanted`` (a body, or a whole CREATE TRIGGER) says, under its mode."""
    begins = max(wanted.find("\nBEGIN") + 1, 0)
    return live.body in (wanted[begins:], as_shown(wanted[begins:])) and live.sql_mode == ""


def body(relation: Relation, table: TableName, event: str, name: str) -> str:
    """The trigger's body: what ``same_body`` compares with the live one."""
    pair = _pair_on_update if event.lower() == "update" else _pair_on_insert
    derived = _derived_on_update if event.lower() == "update" else _derived_on_insert
    lines = [
        "BEGIN",
        f"  /* Mirror of rollout on {quote.comment(str(table))}: keeps old and new columns in step. It goes with "
        f"`rollout rollback` or `rollout finish`, else with DROP TRIGGER {quote.comment(quote.name(name))}. */",
        *([f"  DECLARE {_ANSWER} TINYINT;"] if any(_may_raise(p) for p in relation.pairs) else []),
        "  DECLARE CONTINUE HANDLER FOR SQLEXCEPTION BEGIN END;",
    ]
    mending = [line for p in relation.pairs for line in pair(p)]
    mending += [line for d in relation.derived for line in derived(d)]
    if event.lower() == "update" and not any(m.forward.may_raise for m in relation.mappings):
        mending = _unless_all_stands(relation, mending)
    return "\n".join([*lines, *mending, "END"])


def _unless_all_stands(relation: Relation, mending: list[str]) -> list[str]:
    """An UPDATE of other columns costs one comparison each, not a step of the body each."""
    return [f"  IF NOT ({relation.holds(new)}) THEN", *(f"  {line}" for line in mending), "  END IF;"]


def _may_raise(pair: PairSql) -> bool:
    return pair.forward.may_raise or pair.backward.may_raise


def _pair_on_insert(pair: PairSql) -> list[str]:
    """A column counts as given when it differs from what an INSERT that leaves it out would give it."""
    given_new = f"NOT ({pair.unset.on_insert(new)})"
    if pair.new_wins:
        return _mend(pair, _branch("IF", given_new, _carry_back(pair)), _branch("ELSE", None, _carry_forward(pair)))
    forward = f"NOT ({pair.given_old.on_insert(new)}) OR {pair.unset.on_insert(new)}"
    return _mend(pair, _branch("IF", forward, _carry_forward(pair)), _branch("ELSE", None, _carry_back(pair)))


def _pair_on_update(pair: PairSql) -> list[str]:
    old_changed = pair.changed(pair.old_side, old, new)
    new_changed = pair.changed(pair.new_side, old, new)
    empty = pair.unset.now(new)
    # What f reads beside the old column, the way back says nothing about: a change there is always carried.
    beside = pair.changed(pair.old_side[1:], old, new) if pair.old_side[1:] else None
    forward, back = _carry_forward(pair, beside), _carry_back(pair)
    if pair.new_wins:
        return _mend(pair, _branch("IF", new_changed, back), _branch("ELSEIF", f"{old_changed} OR {empty}", forward))
    when = f"{old_changed} OR ({empty}) AND NOT ({new_changed})"
    return _mend(pair, _branch("IF", when, forward), _branch("ELSEIF", new_changed, back))


def _mend(pair: PairSql, first: list[str], second: list[str]) -> list[str]:
    """Nothing is done, and hardly anything computed, while n <=> f(o)."""
    asked, stands = _asked(pair.forward, pair.holds(new), "  ")
    return [*asked, f"  IF NOT ({stands}) THEN", *first, *second, "    END IF;", "  END IF;"]


def _asked(rule: Rule, question: str, indent: str) -> tuple[list[str], str]:
    """(lines, answer): an expression that raises answers no, instead of skipping what hangs on the answer.

    A SET whose value raises leaves NULL in the variable (seen on 9.7), whatever stood there before.
    """
    if not rule.may_raise:
        return [], question
    return [f"{indent}SET {_ANSWER} = 0;", f"{indent}SET {_ANSWER} = {question};"], f"{_ANSWER} IS TRUE"


def _branch(word: str, condition: str | None, lines: list[str]) -> list[str]:
    return [f"    {word}" if condition is None else f"    {word} {condition} THEN", *lines]


def _carry_forward(pair: PairSql, always: str | None = None) -> list[str]:
    """n := f(o), unless o <=> b(n)."""
    if pair.is_copy:
        return _set(pair.forward, None)
    asked, corresponds = _asked(pair.backward, pair.goes_back(new), "      ")
    apart = f"NOT ({corresponds})"
    return [*asked, *_set(pair.forward, apart if always is None else f"{always} OR {apart}")]


def _carry_back(pair: PairSql) -> list[str]:
    return _set(pair.backward, None)


def _set(rule: Rule, unless: str | None) -> list[str]:
    guard, value = rule.guarded(new)
    conditions = [c for c in (unless, guard) if c is not None]
    assignment = f"SET {new(rule.target.name)} = {value};"
    return [f"      IF {every(conditions)} THEN {assignment} END IF;" if conditions else f"      {assignment}"]


def _derived_on_insert(derived: DerivedSql) -> list[str]:
    return _derive(derived.forward, None if derived.follows else derived.unset.on_insert(new))


def _derived_on_update(derived: DerivedSql) -> list[str]:
    if derived.follows:
        return _derive(derived.forward, None)
    return _derive(derived.forward, f"({derived.unset.now(new)}) AND ({derived.unset.now(old)})")


def _derive(rule: Rule, when: str | None) -> list[str]:
    guard, value = rule.guarded(new)
    conditions = [c for c in (when, guard) if c is not None]
    assignment = f"SET {new(rule.target.name)} = {value};"
    return [f"  IF {every(conditions)} THEN {assignment} END IF;" if conditions else f"  {assignment}"]
