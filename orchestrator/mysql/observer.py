"""The only reader of servers: one look brings every fact that was asked for, or says of each why it could not be seen.

Each need is read by itself, so that one that fails hides no other. Sessions are kept; none of them ever writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from orchestrator.errors import Fenced, PrivilegeMissing, RolloutError, RunbookError, ServerUnreachable
from orchestrator.model.contract import Column, TableName
from orchestrator.model.facts import (
    DiskFacts,
    DriftFacts,
    Facts,
    GateSample,
    Holder,
    MeterFacts,
    MirrorFacts,
    Need,
    Reading,
    ReplicaFacts,
    Shape,
    ValueScan,
)
from orchestrator.model.in_use import columns_before
from orchestrator.model.runbook import RollbackDdl
from orchestrator.model.state import Record
from orchestrator.mysql import quote
from orchestrator.mysql.errno import Cure, ServerError
from orchestrator.mysql.locks import blindness, read_holders
from orchestrator.mysql.look.dependents import read_dependents
from orchestrator.mysql.look.disk import read_disk
from orchestrator.mysql.look.load import read_load, read_transactions
from orchestrator.mysql.look.marks import read_double_writes, read_flag, read_positions
from orchestrator.mysql.look.privileges import read_missing
from orchestrator.mysql.look.readers import read_readers
from orchestrator.mysql.look.replicas import Replicas
from orchestrator.mysql.look.rights import read_rights
from orchestrator.mysql.look.server import read_server
from orchestrator.mysql.look.size import read_row_versions, read_size
from orchestrator.mysql.look.tables import hidden, like_named
from orchestrator.mysql.look.unseen import PERFORMANCE_SCHEMA, Account, Unseen, read_account, unseen_because
from orchestrator.mysql.session import Session
from orchestrator.mysql.shape import read_shape, read_triggers
from orchestrator.mysql.site import Site
from orchestrator.ports import KeepGoing

if TYPE_CHECKING:
    from orchestrator.mysql.relation import Relation

LOOK_TIMEOUT_S = 5.0
# A dead session shows at once and is worth another; a server that let us wait for an answer would do so again.
_AT_ONCE_S = 1.0
_KEPT_S = 5.0  # disk and shape change slowly
_BY_RECORD = frozenset({Need.SERVER, Need.MIRROR, Need.FLAG})
ReadRecord = Callable[[], Record | None]
_SILENTLY_EMPTY = "without the TRIGGER privilege the server shows no trigger"


class _Missing(Exception):
    """The table is not there; the account would see it. Its arguments: tables that differ from it in case only."""


class MysqlObserver:
    """Implements ports.Observer. ``record`` reads the rollout's record: it says where the rollout began, whether the
    mirror should stand, and by which relation drift is measured now. ``samples``: of the gates that throttle."""

    def __init__(
        self,
        site: Site,
        record: ReadRecord = lambda: None,
        samples: Callable[[], tuple[GateSample, ...]] = tuple,
    ) -> None:
        self._site, self._read_record = site, record
        self._looking: Session | None = None
        self._scanning: Session | None = None
        self._account: Account | None = None
        self._replicas = Replicas(site)
        self._disk: Reading[DiskFacts] | None = None
        self._relation: tuple[object, Relation] | None = None
        self._shape: Shape | None = None
        self._around: tuple[float, Shape] | None = None
        self._down, self._doubled = "", site.runbook.phases.shadow == "flag"
        marked = (site.settings.state_schema, site.runbook.id)
        self._readers: dict[Need, Callable[[Session], Any]] = {
            Need.SERVER: read_server,
            Need.SHAPE: self._read_shape,
            Need.LOCKS: self._read_locks,
            Need.TRANSACTIONS: read_transactions,
            Need.REPLICAS: lambda s: self._read_replicas(s, ()),
            Need.REPLICA_LOCKS: lambda s: self._read_replicas(s, self._family(s)),
            Need.LOAD: read_load,
            Need.PRIVILEGES: lambda s: read_missing(s, site.runbook, site.settings.state_schema, self._who()),
            Need.ROW_VERSIONS: lambda s: read_row_versions(s, self._present(s).table),
            Need.SIZE: lambda s: read_size(s, site.runbook.table),
            Need.VALUES: self._read_values,
            Need.MIRROR: (lambda s: read_double_writes(s, *marked)) if self._doubled else self._read_mirror,
            Need.FLAG: lambda s: read_flag(s, *marked),
            Need.THROTTLES: lambda _: samples(),
            Need.READERS: lambda s: read_readers(s, site.runbook),
            Need.DEPENDENTS: lambda s: read_dependents(s, site.runbook.table),
            Need.POSITIONS: lambda s: read_positions(s, *marked),
        }
        self._scans_for: dict[Need, Callable[[Session, KeepGoing], Any]] = {
            Need.DRIFT: self._read_drift,
            Need.INVARIANTS: self._read_invariants,
            Need.METER: self._read_meter,
        }

    def look(self, needs: frozenset[Need], keep_going: KeepGoing = lambda _: True) -> Facts:
        """Every need as a reading of this moment. Never raises for what cannot be seen, and never writes. Checks are
        judged while a table is scanned, so ``keep_going`` may look, too; only Fenced passes, when it raises that."""
        self._shape, self._down = None, ""
        found: dict[str, Any] = self._standing() if needs & _BY_RECORD else {}
        found |= {need.value.replace("-", "_"): self._reading(need, keep_going) for need in Need if need in needs}
        return Facts(**found)

    def _standing(self) -> dict[str, Any]:
        """What the record adds to the facts; a record that cannot be read makes nothing good."""
        try:
            record = self._read_record()
        except RolloutError:
            return {"began_on": None}
        if record is None:
            return {"began_on": "", "mirror_due": False}
        return {"began_on": record.server_uuid, "mirror_due": record.mirror_due, "readers_due": record.readers_due}

    def close(self) -> None:
        """Close every session, also those with replicas."""
        self._replicas.close()
        for session in filter(None, (self._looking, self._scanning)):
            session.close()
        self._looking = self._scanning = None

    def _reading(self, need: Need, keep_going: KeepGoing) -> Reading[Any]:
        """One need, asked twice when the session turned out to be dead."""
        at = self._site.clock.monotonic()
        if need is Need.DISK:
            return self._read_disk(at)
        for last in (False, True):
            try:
                if scan := self._scans_for.get(need):
                    return Reading(at, scan(self._session(), keep_going))
                return Reading(at, self._readers[need](self._session()))
            except _Missing as missing:
                return Reading(at, near=missing.args)
            except Unseen as unseen:
                return Reading(at, unseen=unseen.reason, grant=unseen.grant)
            except ServerError as error:
                if error.cure is Cure.RECONNECT:
                    if not last and self._site.clock.monotonic() - at < _AT_ONCE_S:
                        continue
                    self._down = str(error)
                told = unseen_because(error, self._account, self._denied_on(need))
                return Reading(at, unseen=told.reason, grant=told.grant)
            except Fenced:
                raise
            except RunbookError as error:
                return Reading(at, unseen=error.seen, wanted=error.expected, mend=error.next)
            except RolloutError as error:
                self._down = error.seen if isinstance(error, ServerUnreachable) else self._down
                return Reading(at, unseen=error.seen)
        raise AssertionError("both tries return")

    def _denied_on(self, need: Need) -> str:
        """What an account was denied when the server says 1142 in this reading."""
        if need in (Need.FLAG, Need.POSITIONS) or (need is Need.MIRROR and self._doubled):
            literal = self._account is not None and self._account.literal
            return quote.everything_in(self._site.settings.state_schema, literal=literal)
        if need in (Need.VALUES, Need.DRIFT, Need.INVARIANTS, Need.METER, Need.SHAPE, Need.MIRROR):
            return quote.table(self._site.runbook.table)
        return PERFORMANCE_SCHEMA

    def _session(self) -> Session:
        """The session that looks. A server that gives no answer is asked once in a look, not once for every need."""
        if self._down:
            raise Unseen(self._down)
        if self._looking is None:
            self._looking = self._site.connect("observer", LOOK_TIMEOUT_S, roams=True)
        if self._account is None:
            self._account = read_account(self._looking)
        return self._looking

    def _who(self) -> Account:
        return self._account or read_account(self._session())

    def _scans(self) -> Session:
        if self._scanning is None:
            self._scanning = self._site.connect("scan")
        return self._scanning

    def _read_shape(self, session: Session) -> Shape:
        """Raises _Missing when there is no such table and the account would see it; Unseen when it would not."""
        if self._shape is None:
            contract = self._site.runbook.contract
            self._shape = read_shape(session, contract.table, contract.key)
        if self._shape is None:
            hidden(session, self._site.runbook.table)
            raise _Missing(*map(str, like_named(session, self._site.runbook.table)))
        return self._shape

    def _present(self, session: Session) -> Shape:
        """The table, for readings that have no meaning without one."""
        try:
            return self._read_shape(session)
        except _Missing:
            raise Unseen(f"there is no table {self._site.runbook.table}") from None

    def _family(self, session: Session) -> tuple[TableName, ...]:
        parents = tuple(f.references for f in self._site.runbook.contract.foreign_keys)
        return tuple(dict.fromkeys((*self._present(session).family, *parents)))

    def _read_locks(self, session: Session) -> tuple[Holder, ...]:
        if blind := blindness(session):
            raise Unseen(f"metadata locks cannot be seen: {blind}")
        return read_holders(session, self._family(session), frozenset({session.connection_id}))

    def _read_replicas(self, session: Session, tables: tuple[TableName, ...]) -> tuple[ReplicaFacts, ...]:
        return self._replicas.look(session, self._who(), tables)

    def _read_disk(self, at: float) -> Reading[DiskFacts]:
        """A command of the user's may be slow: its answer is kept for some seconds, with the time when it was given."""
        if self._disk is not None and at - self._disk.at < _KEPT_S:
            return self._disk
        try:
            self._disk = Reading(at, read_disk(self._session(), self._site.runbook.limits.disk))
        except Unseen as unseen:
            return Reading(at, unseen=unseen.reason, grant=unseen.grant)
        except (ServerError, RolloutError) as error:
            return Reading(at, unseen=str(error))
        return self._disk

    # Mapping and scans are loaded by whoever needs them: a look that must answer at once does not pay for them.

    def _relation_of(self, session: Session, shape: Shape) -> Relation:
        """The mapping as SQL; asked of the server again only when the columns are others."""
        from orchestrator.mysql.relation import load_relation

        if self._relation is None or self._relation[0] != (shape.columns, shape.collation):
            of = (shape.columns, shape.collation)
            self._relation = of, load_relation(session, self._site.runbook.contract, shape)
        return self._relation[1]

    def _read_values(self, session: Session) -> ValueScan:
        from orchestrator.mysql.promised import scan_promised

        shape, contract = self._present(session), self._site.runbook.contract
        relation, not_ours = self._relation_of(session, shape), self._not_ours(shape)
        return scan_promised(self._scans(), relation, contract, shape, self._site.clock, not_ours)

    def _not_ours(self, shape: Shape) -> tuple[Column, ...]:
        """Columns that were there before ddl; none once it is done, or for whoever cannot see whose they are."""
        try:
            return columns_before(self._site.runbook.contract, shape, self._read_record())
        except PrivilegeMissing:
            return ()

    def _read_mirror(self, session: Session) -> MirrorFacts:
        """Triggers are read on every look; the table around them costs ten times as much, and a mirror that is whole
        with the table of a few seconds ago is whole."""
        at = self._site.clock.monotonic()
        if self._around is not None and self._shape is None and at - self._around[0] < _KEPT_S:
            triggers = read_triggers(session, self._site.runbook.table)
            facts = self._mirror_in(session, replace(self._around[1], triggers=triggers))
            if facts.intact:
                return facts
        self._around = (at, self._present(session))
        return self._mirror_in(session, self._around[1])

    def _mirror_in(self, session: Session, shape: Shape) -> MirrorFacts:
        """Raises Unseen when a trigger is missing and the account would not see it."""
        from orchestrator.mysql.look.mirror import judge_mirror, live_trigger

        rollout, contract = self._site.runbook.id, self._site.runbook.contract
        found, of = [live_trigger(shape, rollout, event) for event in ("update", "insert")], contract.table
        if not all(found) and not read_rights(session).on_table("TRIGGER", of.schema, of.name):
            raise Unseen(_SILENTLY_EMPTY, self._who().grant("TRIGGER", quote.table(of)))
        complete = all(shape.column(c.name) for c in contract.columns)
        return judge_mirror(shape, rollout, self._relation_of(session, shape) if any(found) and complete else None)

    def _read_drift(self, session: Session, keep_going: KeepGoing) -> DriftFacts:
        from orchestrator.mysql.scan import scan_drift

        shape, record = self._present(session), self._read_record()
        truth = record.truth if record is not None else "old-is-truth"
        return scan_drift(self._scans(), self._relation_of(session, shape), shape, truth, keep_going, self._site.pace())

    def _read_invariants(self, session: Session, keep_going: KeepGoing) -> DriftFacts:
        from orchestrator.mysql.scan import scan_invariants

        shape, invariants = self._present(session), self._site.runbook.contract.invariants
        return scan_invariants(self._scans(), invariants, shape, keep_going, self._site.pace())

    def _read_meter(self, session: Session, keep_going: KeepGoing) -> MeterFacts:
        """Nothing can be lost that has no column yet."""
        from orchestrator.mysql.scan import scan_meter

        shape, runbook = self._present(session), self._site.runbook
        paired = {m.new.lower() for m in runbook.contract.pairs}
        record, columns = self._read_record(), runbook.contract.columns
        goes = record.columns_added if record is not None and runbook.phases.rollback_ddl is RollbackDdl.DROP else ()
        dropped = [c for c in columns if c.name in goes and c.name.lower() not in paired and shape.column(c.name)]
        relation = self._relation_of(session, shape)
        if not all(shape.column(m.new) for m in runbook.contract.pairs):
            relation = replace(relation, pairs=())
        return scan_meter(self._scans(), relation, shape, dropped, keep_going, self._site.pace())
