"""What ddl makes of the declared statements and of the application's triggers, on the copies that ddl is tried on."""

from __future__ import annotations

from orchestrator.model.contract import Contract
from orchestrator.model.matrix import RUNS, Failure, ShapeName, Version
from orchestrator.mysql.compat import declared_statements
from orchestrator.mysql.family_copy import FamilyCopy
from orchestrator.mysql.mirror_trial import lay_triggers
from orchestrator.mysql.pinned import SQL_MODE
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape
from orchestrator.mysql.sql.mirror import drop_trigger
from orchestrator.mysql.statement_trial import Fared, Judged, StatementTrial, judged


class DeclaredTrial:
    """Leaves no row and no trigger on the copies, and the session as it was. Raises ServerError."""

    def __init__(self, session: Session, here: FamilyCopy, contract: Contract) -> None:
        self._session, self._here, self._table = session, here, contract.table
        self._keys = declared_statements(contract).keys
        self._trial = StatementTrial(session, here, contract)
        self._was: dict[tuple[Version, str], Fared] = {}
        self._left_out: tuple[str, ...] = ()
        self._mode = str(session.value("SELECT @@GLOBAL.sql_mode"))

    def before(self) -> None:
        """What the old application says, as the table is now."""
        self._was, self._left_out = self._fared(("old",))

    def after(self) -> tuple[Failure, ...]:
        """Every statement of a version that runs from here on and fails now, and every trigger that does."""
        now, left_out = self._fared(("old", "new"))
        failing = tuple(
            Failure(key[0], ShapeName.EXPANDED, key[1], here.number, here.text)
            for key, here in now.items()
            if ShapeName.EXPANDED in RUNS[key[0]] and judged(self._was.get(key, here), here) is Judged.FAILS
        )
        broken = (said for said in left_out if said not in self._left_out)
        return (*failing, *(Failure("old", ShapeName.EXPANDED, "a trigger of the table", 0, said) for said in broken))

    def _fared(self, versions: tuple[Version, ...]) -> tuple[dict[tuple[Version, str], Fared], tuple[str, ...]]:
        shape = read_shape(self._session, self._here.of(self._table))
        if shape is None:
            return {}, ()
        try:
            self._trial.lay_rows(shape)
            left_out = lay_triggers(self._session, self._here)
            keys = [k for k in self._keys if k[0] in versions]
            return {key: self._trial.fared(key[1], shape, (self._mode,)) for key in keys}, tuple(left_out)
        finally:
            self._clear()

    def _clear(self) -> None:
        for table, shape in self._here.shapes.items():
            for trigger in shape.triggers:
                self._session.execute(drop_trigger(self._here.of(table), trigger.name, self._here.tag))
        self._trial.clear()
        self._session.pin("sql_mode", SQL_MODE)
