"""What a reading walk may ask of each row: drift, the whole proof of verify, the meter, and what is somebody's."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from orchestrator.model.contract import Column, Contract, Invariant
from orchestrator.model.facts import DROPPED, Shape
from orchestrator.model.step import Compare, Truth
from orchestrator.mysql import quote
from orchestrator.mysql.relation import Relation, every, some
from orchestrator.mysql.sql.rows import ref
from orchestrator.mysql.values import foreign_problems

LOSSY = "lossy-ok"
# Equal to the server, which would not store one over the other, and written in two forms: 1 and 1.0 in JSON.
OTHER_FORM = "other-form"
NOTED = frozenset({LOSSY, OTHER_FORM})
# More than a stretch can have rows.
_NOTED_UNIT = 2**32


class Question(Struct, frozen=True):
    """What is asked of each row ``t``. ``wrong`` is 0 or 1; ``classes`` are (mapping, SQL that names what is wrong, or
    NULL); ``noted`` are (class, mapping, SQL 0 or 1) that are counted without being wrong. A row that is ``fine`` is
    neither wrong nor noted, and costs no more than that one condition."""

    wrong: str
    classes: tuple[tuple[str, str], ...]
    noted: tuple[tuple[str, str, str], ...] = ()
    fine: str = ""

    @property
    def counted(self) -> tuple[str, ...]:
        """One sum for both, so that each row is judged once; ``split`` takes it apart."""
        if not self.noted:
            return (self.wrong,)
        noted = some(sql for _, _, sql in self.noted)
        return (f"IF({self.fine}, 0, IF({self.wrong}, 1, 0) + IF({noted}, {_NOTED_UNIT}, 0))",)

    def split(self, counts: Sequence[int]) -> tuple[int, int]:
        """(rows that are wrong, rows that are noted) of a stretch that was read with ``counted``."""
        noted, wrong = divmod(counts[0], _NOTED_UNIT)
        return wrong, noted

    @property
    def class_sql(self) -> tuple[str, ...]:
        return tuple(sql for _, sql in self.classes)


def question_of(step: Compare, relation: Relation, contract: Contract, shape: Shape) -> Question:
    """What a comparison asks, by its purpose."""
    if step.purpose == "in-use":
        return in_use_question(relation, [c for c in shape.columns if c.name in step.columns])
    if step.purpose in ("verify", "newest"):
        return verify_question(relation, step.relation, contract)
    return drift_question(relation, step.relation)


def drift_question(relation: Relation, mode: Truth) -> Question:
    """Does the relation of ``mode`` hold?"""
    fine = relation.holds(ref) if mode == "old-is-truth" else relation.corresponds(ref)
    classes = tuple((m.name, m.mismatch_class(ref, mode)) for m in relation.mappings)
    return Question(f"NOT ({fine})", classes)


def verify_question(relation: Relation, mode: Truth, contract: Contract) -> Question:
    """Drift, the contract's invariants and its CHECKs, which no server enforces yet; what corresponds one way only,
    what lost something as JSON, and JSON in another form, is counted. A condition that is NULL holds."""
    drift = drift_question(relation, mode)
    broken, classes = _broken([*_classed(contract.invariants), *((f"check:{c.name}", c.sql) for c in contract.checks)])
    two_way = [p for p in relation.pairs if not p.back_follows]
    # A pair that goes back whenever it holds is one-way only where it corresponds without holding.
    one_way = two_way if mode == "old-is-truth" else [p for p in relation.pairs if not p.is_copy]
    lossy = tuple((LOSSY, p.name, p.lossy(ref, mode)) for p in one_way)
    lost = tuple((LOSSY, d.name, sql) for d in relation.derived if (sql := d.lossy(ref)) is not None)
    wrong = some([drift.wrong, *broken])
    formed = tuple((OTHER_FORM, m.name, sql) for m in relation.mappings if (sql := m.other_form(ref)) is not None)
    noted = lossy + lost + formed
    fine = every(
        [
            relation.holds(ref),
            *(p.goes_back(ref) for p in two_way),
            *(f"NOT ({sql})" for _, _, sql in lost + formed),
            *(f"NOT ({sql})" for sql in broken),
        ]
    )
    return Question(wrong, drift.classes + classes, noted, fine if noted else "")


def in_use_question(relation: Relation, columns: Sequence[Column]) -> Question:
    """Do ``columns``, which were there before ddl, hold what somebody else put there?"""
    found = foreign_problems(relation, columns)
    return Question(some(f"{p.name} IS NOT NULL" for p in found), tuple((p.mapping, p.name) for p in found))


def invariants_question(invariants: Sequence[Invariant]) -> Question:
    """Which of the contract's invariants does the row break? NULL breaks none."""
    broken, classes = _broken(_classed(invariants))
    return Question(some(broken), classes)


def _classed(invariants: Sequence[Invariant]) -> list[tuple[str, str]]:
    return [(f"invariant:{i.name}", i.sql) for i in invariants]


def _broken(classed: Sequence[tuple[str, str]]) -> tuple[list[str], tuple[tuple[str, str], ...]]:
    """Conditions of a row that breaks one of (class, condition), and the classes as they are asked."""
    broken = [f"({sql}) IS FALSE" for _, sql in classed]
    names = (quote.text(name) for name, _ in classed)
    return broken, tuple(("", f"IF({sql}, {name}, NULL)") for sql, name in zip(broken, names, strict=True))


def meter_question(relation: Relation, dropped: Sequence[Column] = ()) -> Question:
    """What of the new values can the way back not carry? Classes as bytes: a collation must not take two for one.

    ``dropped``: columns of no pair that would go; a row counts whose value is neither the default nor what a mapping
    would fill in again.
    """
    pairs = tuple((p.name, f"CAST({p.meter_class(ref)} AS BINARY)") for p in relation.pairs)
    gone = tuple(
        (c.name, f"IF({_regained(relation, c)}, NULL, CAST({quote.text(DROPPED)} AS BINARY))") for c in dropped
    )
    classes = pairs + gone
    return Question(some(f"{sql} IS NOT NULL" for _, sql in classes), classes)


def _regained(relation: Relation, column: Column) -> str:
    derived = (d.forward.equals(ref) for d in relation.derived if d.new.name.lower() == column.name.lower())
    return some([_is_default(column), *derived])


def _is_default(column: Column) -> str:
    if column.default is None or column.default.is_expression:
        return f"{ref(column.name)} IS NULL"
    return f"{ref(column.name)} <=> {quote.text(column.default.text)}"
