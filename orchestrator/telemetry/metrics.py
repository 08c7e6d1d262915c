"""Prometheus metrics, read from the store at each scrape: they outlive any one command. Names ``rollout_*``, base
units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from orchestrator.errors import RolloutError
from orchestrator.model.state import FORWARD, State
from orchestrator.model.stuck import StuckBy
from orchestrator.telemetry.snapshot import Snapshot

_LABELS = ["rollout"]


class RolloutCollector(Collector):
    """``snapshot`` reads all rollouts of the store."""

    def __init__(self, snapshot: Callable[[], Sequence[Snapshot]]) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("rollout_up", "1 when the state could be read at this scrape")
        try:
            snapshots = self._snapshot()
        except RolloutError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        yield from _state(snapshots)
        yield from _progress(snapshots)
        yield from _facts(snapshots)
        yield from _stuck(snapshots)


def _gauge(name: str, text: str, labels: Sequence[str] = _LABELS) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"rollout_{name}", text, labels=list(labels))


def _state(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    state = _gauge("state", "1 for the state that the rollout is in", ["rollout", "state"])
    phase = _gauge("phase_done", "1 for each forward stage that is done", ["rollout", "phase"])
    revision = _gauge("revision", "Revision of the record; grows with every event")
    drift = _gauge("drift_rows", "Rows that the last comparison found wrong")
    retries = _gauge(
        "batch_retries", "Batches sent again after a deadlock or a lock wait, in the steps that have ended"
    )
    for seen in snapshots:
        record = seen.record
        retries.add_metric([record.id], seen.retries)
        for each in State:
            state.add_metric([record.id, each.value], float(record.state is each))
        for name in FORWARD:
            phase.add_metric([record.id, name], float(name in record.done))
        revision.add_metric([record.id], record.revision)
        if seen.drift is not None:
            drift.add_metric([record.id], seen.drift)
    yield from (state, phase, revision, drift, retries)


def _stuck(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    stuck = _gauge("stuck", "1 when it does not move for longer than max_wait, by why", ["rollout", "reason"])
    for seen in snapshots:
        for by in StuckBy if seen.ours else ():
            stuck.add_metric([seen.record.id, by.value], float(seen.stuck is not None and seen.stuck.by is by))
    yield stuck


def _progress(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    rows = _gauge("progress_done", "Units done by the running step")
    total = _gauge("progress_total", "Units that the running step has in all; 0 when it cannot be said")
    rate = _gauge("progress_rate_per_second", "Units per second of the running step")
    throttled = _gauge("throttled_seconds", "Seconds that the running step waited on purpose")
    at = _gauge("progress_timestamp_seconds", "When the progress was last reported")
    for seen in snapshots:
        record = seen.record
        if seen.told is None:
            continue
        told, when = seen.told
        rows.add_metric([record.id], told.done)
        total.add_metric([record.id], told.total)
        rate.add_metric([record.id], told.rate_per_s)
        throttled.add_metric([record.id], told.throttled_s)
        at.add_metric([record.id], when.timestamp())
    yield from (rows, total, rate, throttled, at)


def _facts(snapshots: Sequence[Snapshot]) -> Iterator[Metric]:
    mirror = _gauge("mirror_intact", "1 while the mirror stands as it was put up")
    percent = _gauge("read_percent", "Percent of readers that the flag puts on the new column now")
    writes = _gauge("new_writes", "1 while the new application may write new columns")
    lag = _gauge("replication_lag_seconds", "Lag of each replica", ["rollout", "replica"])
    for seen in snapshots:
        record, facts = seen.record, seen.facts
        if facts is None:
            continue
        if facts.mirror is not None and facts.mirror.value is not None:
            mirror.add_metric([record.id], float(facts.mirror.value.intact))
        if facts.flag is not None and facts.flag.value is not None:
            percent.add_metric([record.id], facts.flag.value.effective_percent)
            writes.add_metric([record.id], float(facts.flag.value.effective_new_writes))
        if facts.replicas is not None and facts.replicas.value is not None:
            for replica in facts.replicas.value:
                if replica.lag_s is not None:
                    lag.add_metric([record.id, replica.name], replica.lag_s)
    yield from (mirror, percent, writes, lag)


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not news."""


def serve(snapshot: Callable[[], Sequence[Snapshot]], host: str, port: int, announce: Callable[[int], None]) -> None:
    """Serve /metrics until the process is told to stop. ``announce`` gets the port (0 chooses a free one)."""
    registry = CollectorRegistry()
    registry.register(RolloutCollector(snapshot))
    with make_server(host, port, make_wsgi_app(registry), handler_class=_Quiet) as server:
        announce(server.server_port)
        server.serve_forever()
