"""Telemetry: what a process counts, in the metrics of Prometheus (metrics.py).

With PROMETHEUS_MULTIPROC_DIR set (`narthex up` sets it) a scrape of any worker covers all of them.
"""

import collections
import os
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, values

from app.domain.exchange import Exchange
from app.process.live_series import render_series
from app.process.metrics import Metrics
from app.process.model_series import ModelSeries
from providers.transport.transport import AddressConnections

_NO_CONNECTIONS = AddressConnections(0, 0, 0, 0)


class Telemetry:
    """The counts of one process, as of its last flush()."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # The default makes a system call for the process id at each count.
            pid = os.getpid()
            values.ValueClass = values.MultiProcessValue(lambda: pid)  # pyright: ignore[reportUnknownMemberType]
        self._registry = registry
        self._metrics = Metrics(registry)
        self._series = ModelSeries(self._metrics)
        self._counted_redis_losses = 0
        self._shown_endpoints: set[tuple[str, str]] = set()
        self._shown_providers: set[str] = set()
        self._shown_connections: dict[str, AddressConnections] = {}
        self._connection_waits: dict[str, list[float]] = {}
        self._shown_queues: set[str] = set()
        self._counted_task_failures: collections.Counter[str] = collections.Counter()
        self._rule_counts: collections.Counter[tuple[Counter, str]] = collections.Counter()
        self._admitted_locally = 0
        self._exchanges: list[Exchange] = []
        self.in_flight = 0  # requests that have not ended

    def count_exchange(self, exchange: Exchange) -> None:
        """Keep it for the next flush(): updating a handful of locked counters now would be a tenth of what a request costs."""
        self._exchanges.append(exchange)

    def count_shadow(self, shadow: str, exchange: Exchange) -> None:
        self._metrics.shadows.labels(self._series.label_of(shadow), exchange.outcome).inc()
        self._metrics.shadow_cost.labels(self._series.label_of(shadow)).inc(max(0, exchange.cost_microusd or 0))

    def count_dropped_shadow(self, shadow: str, reason: str) -> None:
        self._metrics.dropped_shadows.labels(self._series.label_of(shadow), reason).inc()

    def count_refusal(self, status: int) -> None:
        self._metrics.refusals.labels(str(status)).inc()

    def count_limit_refusal(self, rule: str) -> None:
        self._rule_counts[self._metrics.limit_refusals, rule] += 1

    def count_limit_grants(self, rule: str, grants: int) -> None:
        self._rule_counts[self._metrics.limit_grants, rule] += grants

    def set_reservations(self, held: int, *, redis_losses: int) -> None:
        """Sets how many reservations are held. `redis_losses` counts since the start of this process."""
        self._metrics.reservations.set(held)
        if redis_losses > self._counted_redis_losses:
            self._metrics.redis_losses.inc(redis_losses - self._counted_redis_losses)
            self._counted_redis_losses = redis_losses

    def set_endpoints(self, states: Mapping[tuple[str, str], int], in_flight: Mapping[str, int]) -> None:
        """Sets how many endpoints there are, by provider and state, and how many requests, by provider. Whatever is not there any more is
        shown with 0.
        """
        for each in {*self._shown_endpoints, *states}:
            self._metrics.endpoints.labels(*each).set(states.get(each, 0))
        for provider in {*self._shown_providers, *in_flight}:
            self._metrics.endpoint_requests.labels(provider).set(in_flight.get(provider, 0))
        self._shown_endpoints |= states.keys()
        self._shown_providers |= in_flight.keys()

    def set_stored_feedback(self, **counts: int) -> None:
        """Sets how many events of feedback are stored, by their state."""
        for state, count in counts.items():
            self._metrics.stored_feedback.labels(state).set(count)

    def set_writer(self, *, connected: bool, silent_s: float, stored: int) -> None:
        self._metrics.writer_connected.set(connected)
        self._metrics.writer_silent.set(silent_s)
        self._metrics.writer_stored.set(stored)

    def count_dry_run_refusal(self, rule: str) -> None:
        self._rule_counts[self._metrics.limit_dry_runs, rule] += 1

    def count_local_admission(self) -> None:
        self._admitted_locally += 1

    def set_redis_unavailable(self, unavailable: bool) -> None:
        self._metrics.redis_unavailable.set(unavailable)

    def set_limits_refusing(self, rules: int) -> None:
        self._metrics.limits_refusing.set(rules)

    def set_revocation_lag(self, lag_s: float) -> None:
        self._metrics.revocation_lag.set(lag_s)

    def set_room(self, requests: float) -> None:
        self._metrics.room.set(requests)

    def set_waiting(self, counts: Mapping[str, int]) -> None:
        """Sets how many requests wait, by target. A target where nobody waits any more is shown with 0."""
        for target in {*self._shown_queues, *counts}:
            self._metrics.waiting_for_target.labels(target).set(counts.get(target, 0))
        self._shown_queues |= counts.keys()

    def count_connection_wait(self, address: str, waited_s: float) -> None:
        """Records a wait for a connection. It is called only for requests that had to wait."""
        self._connection_waits.setdefault(address, []).append(waited_s)

    def set_connections(self, connections: Mapping[str, AddressConnections], max_connections: int) -> None:
        """Sets the connections by address, which comes from the configuration. An address without any is shown with 0."""
        self._metrics.max_connections.set(max_connections)
        for address in {**self._shown_connections, **connections}:
            current = connections.get(address, _NO_CONNECTIONS)
            if self._shown_connections.get(address) != current:
                self._metrics.connections.labels(address, "busy").set(current.busy)
                self._metrics.connections.labels(address, "idle").set(current.idle)
                self._metrics.waiting_for_connection.labels(address).set(current.waiting)
        self._shown_connections = dict(connections)

    def set_background_tasks(self, *, failing: int, failure_counts: Mapping[str, int]) -> None:
        """Sets how many tasks are failing, and how often each has failed since the start of this process."""
        self._metrics.tasks_failing.set(failing)
        for task, count in failure_counts.items():
            if count > self._counted_task_failures[task]:
                self._metrics.task_failures.labels(task).inc(count - self._counted_task_failures[task])
                self._counted_task_failures[task] = count

    def count_learned_rule(self, provider: str, rule: str) -> None:
        self._metrics.learned_rules.labels(provider, rule).inc()

    def count_dropped_access_lines(self, lines: int) -> None:
        self._metrics.access_lines_dropped.inc(lines)

    def set_certificate_expiry(self, expires_at: float) -> None:
        """Sets when the certificate expires, in Unix time. It may be called in any thread."""
        self._metrics.certificate_expiry.set(expires_at)

    def set_export(self, *, exported_spans: int, dropped_spans: int) -> None:
        self._metrics.spans_exported.set(exported_spans)
        self._metrics.spans_dropped.set(dropped_spans)

    def count_feedback(self, metric: str, action: str) -> None:
        self._metrics.feedback.labels(metric, action).inc()

    def count_refused_feedback(self, error: str) -> None:
        self._metrics.refused_feedback.labels(error).inc()

    def count_replay(self, route: str) -> None:
        self._metrics.replays.labels(route).inc()

    def flush(self) -> None:
        """Update the metrics from everything counted since the last flush."""
        exchanges, self._exchanges = self._exchanges, []
        self._series.count(exchanges)
        waits, self._connection_waits = self._connection_waits, {}
        for address, waits_s in waits.items():
            self._metrics.connection_wait.labels(address).observe_all(waits_s)
        rule_counts, self._rule_counts = self._rule_counts, collections.Counter()
        for (counter, rule), count in rule_counts.items():
            counter.labels(rule).inc(count)
        self._metrics.limits_local.inc(self._admitted_locally)
        self._admitted_locally = 0
        self._metrics.in_flight.set(self.in_flight)

    def keep_models(self, models: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
        """The series of models and functions end with them. Called often, with the same objects while nothing has changed."""
        self._series.keep(models, functions)

    def set_spool(self, *, size_bytes: int, oldest_s: float, lost: int, lost_content: int, quarantined: int) -> None:
        self._metrics.spool_bytes.set(size_bytes)
        self._metrics.spool_age.set(oldest_s)
        self._metrics.lost_records.set(lost)
        self._metrics.lost_content.set(lost_content)
        self._metrics.quarantined.set(quarantined)

    def render(self) -> bytes:
        """The body of /metrics."""
        self.flush()
        return self.render_flushed()

    def render_flushed(self) -> bytes:
        """Returns the body that render() returns, as of the last flush(). It may be called in any thread."""
        return render_series(self._registry, self._series.live_models)
