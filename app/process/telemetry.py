"""Prometheus metrics. With PROMETHEUS_MULTIPROC_DIR set (`narthex up` sets it) a scrape of any worker covers all of them."""

import collections
import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
    values,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from app.domain.exchange import Exchange
from app.domain.functions import FUNCTION_PREFIXES
from app.domain.routing import MODEL_PREFIXES
from providers.transport.transport import AddressConnections

CONTENT_TYPE = CONTENT_TYPE_LATEST.replace("; charset=utf-8", "")  # Litestar adds it

_LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_WAIT_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120)
_MAX_TOKENS = 2**31  # more than the record can hold, too

# Of labels: any further model counts as this one.
_MAX_MODELS = 2_000
_OTHER = "other"

_NO_CONNECTIONS = AddressConnections(0, 0, 0, 0)


class _BatchedHistogram(Histogram):
    """A histogram that takes many observations at once, as one locked update per bucket instead of two per observation."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        if amounts:
            # A bucket counts amounts up to its bound, inclusive; the last bound is infinite.
            for bucket, count in collections.Counter([bisect_left(self._upper_bounds, amount) for amount in amounts]).items():
                self._buckets[bucket].inc(count)  # pyright: ignore[reportUnknownMemberType]
            self._sum.inc(sum(amounts))  # pyright: ignore[reportUnknownMemberType]


class _LiveSeries(Collector):
    """Collects from another registry, without the series of models that no longer exist.

    Files of other processes still hold these.
    """

    def __init__(self, registry: CollectorRegistry, models: Collection[str] | None) -> None:
        self._registry = registry
        self._models = models

    def collect(self) -> Iterable[Metric]:
        for metric in self._registry.collect():
            if self._models is not None:
                metric.samples = [each for each in metric.samples if self._is_live(each.labels.get("model", _OTHER))]
            yield metric

    def _is_live(self, model: str) -> bool:
        return model == _OTHER or self._models is None or model in self._models


class Telemetry:
    """The metrics of one process, as of its last flush(). `in_flight`: requests that have not ended.

    Label values are configured names and closed sets, never text of a caller, so their number is bounded.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # The default makes a system call for the process id at each count.
            pid = os.getpid()
            values.ValueClass = values.MultiProcessValue(lambda: pid)  # pyright: ignore[reportUnknownMemberType]
        self._registry = registry
        self._in_flight = Gauge(
            "narthex_requests_in_flight", "Requests that have not ended yet.", registry=registry, multiprocess_mode="livesum"
        )
        self._requests = Counter(
            "narthex_requests",
            "Requests that reached a plan, by how they ended.",
            ("route", "model", "outcome", "status"),
            registry=registry,
        )
        self._refusals = Counter(
            "narthex_refusals",
            "Requests refused before any plan was made (no key, invalid, unknown model ...).",
            ("status",),
            registry=registry,
        )
        self._duration = _BatchedHistogram(
            "narthex_request_duration_seconds",
            "From the last byte of the request to the last byte of the response.",
            ("route", "model"),
            registry=registry,
            buckets=_LATENCY_S,
        )
        self._first_token = _BatchedHistogram(
            "narthex_first_token_seconds",
            "From the request to the first byte of a streamed response.",
            ("route", "model"),
            registry=registry,
            buckets=_LATENCY_S,
        )
        self._tokens = Counter("narthex_tokens", "Tokens that engines reported.", ("model", "direction"), registry=registry)
        self._attempt_failures = Counter(
            "narthex_attempt_failures", "Attempts that failed, by provider and kind.", ("provider", "error"), registry=registry
        )
        self._spool_bytes = Gauge(
            "narthex_spool_bytes", "Bytes of records not yet stored by the writer.", registry=registry, multiprocess_mode="livemax"
        )
        self._spool_age = Gauge(
            "narthex_spool_oldest_record_age_seconds",
            "Age of the oldest record not yet stored by the writer.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._lost_records = Gauge(
            "narthex_records_lost", "Records lost; more than 0 only if a disk is full.", registry=registry, multiprocess_mode="livesum"
        )
        self._lost_content = Gauge(
            "narthex_content_lost", "Records whose content was lost, as there was no space.", registry=registry, multiprocess_mode="livesum"
        )
        self._quarantined = Gauge(
            "narthex_records_quarantined",
            "Records in quarantine, because they cannot be stored.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._replays = Counter(
            "narthex_replays", "Responses sent again to a retry with the same Idempotency-Key.", ("route",), registry=registry
        )
        self._feedback = Counter(
            "narthex_feedback",
            "Feedback that was accepted, by metric (empty for what is withdrawn) and action: create, correct, withdraw.",
            ("metric", "action"),
            registry=registry,
        )
        self._refused_feedback = Counter(
            "narthex_feedback_refused", "Feedback that was refused as invalid, by the code of the error.", ("error",), registry=registry
        )
        self._shadows = Counter(
            "narthex_shadows", "Requests that a shadow answered again, by how that ended.", ("shadow", "outcome"), registry=registry
        )
        self._dropped_shadows = Counter(
            "narthex_shadows_dropped", "Requests drawn for a shadow and not sent, by reason.", ("shadow", "reason"), registry=registry
        )
        self._shadow_cost = Counter(
            "narthex_shadow_cost_microusd", "Cost of shadows, in millionths of a US dollar.", ("shadow",), registry=registry
        )
        self._stored_feedback = Gauge(
            "narthex_writer_feedback",
            "Feedback that the writer has stored and matched since its start; conflicting: with the id of other feedback; unmatched:"
            " that has waited for minutes for its inference; given_up: that no longer waits, as its team has too much.",
            ("state",),
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._models: set[str] = set()
        self._live_models: frozenset[str] | None = None  # None: not known yet
        self._live_of = (0, 0)
        self._cost = Counter("narthex_cost_microusd", "Cost of requests, in millionths of a US dollar.", ("model",), registry=registry)
        self._limit_grants = Counter("narthex_limit_grants", "Requests that a limit admitted, by rule.", ("rule",), registry=registry)
        self._reservations = Gauge(
            "narthex_limit_reservations",
            "Reservations that requests in progress hold against limits.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._redis_losses = Counter(
            "narthex_redis_memory_losses",
            "Times that Redis was found to have lost its memory, by whoever found it first.",
            registry=registry,
        )
        self._counted_redis_losses = 0
        self._endpoints = Gauge(
            "narthex_endpoints",
            "Endpoints by their state, as the worker that sees most of them in it.",
            ("provider", "state"),
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._endpoint_requests = Gauge(
            "narthex_endpoint_requests_in_flight",
            "Requests that endpoints of a provider work on.",
            ("provider",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._shown_endpoints: set[tuple[str, str]] = set()
        self._shown_providers: set[str] = set()
        self._writer_connected = Gauge(
            "narthex_writer_connected", "1: the writer is connected to PostgreSQL.", registry=registry, multiprocess_mode="livemax"
        )
        self._writer_silent = Gauge(
            "narthex_writer_silent_seconds",
            "Since the writer last reported, which it does each second.",
            registry=registry,
            multiprocess_mode="livemin",
        )
        self._writer_stored = Gauge(
            "narthex_writer_inferences_stored",
            "Inferences that the writer has stored since its start.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._by_model: dict[tuple[str, str], tuple[_BatchedHistogram, _BatchedHistogram, Counter, Counter]] = {}
        self._limit_refusals = Counter("narthex_limit_refusals", "Requests that limits refused, by rule.", ("rule",), registry=registry)
        self._limit_dry_runs = Counter(
            "narthex_limit_dry_run_refusals", "Requests that a dry-run rule would have refused.", ("rule",), registry=registry
        )
        self._limits_local = Counter(
            "narthex_requests_admitted_locally",
            "Requests admitted by this worker's share of their limits, as Redis was unavailable.",
            registry=registry,
        )
        self._redis_unavailable = Gauge(
            "narthex_redis_unavailable", "Workers that cannot reach Redis.", registry=registry, multiprocess_mode="livesum"
        )
        self._limits_refusing = Gauge(
            "narthex_limit_rules_refusing_after_loss",
            "Rules that refuse every request, as what was used is not known since Redis lost its memory.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._connections = Gauge(
            "narthex_endpoint_connections",
            "Connections to an address of engines or hosts.",
            ("address", "state"),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._waiting_for_connection = Gauge(
            "narthex_endpoint_requests_waiting",
            "Requests that wait for a connection to an address.",
            ("address",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._max_connections = Gauge(
            "narthex_endpoint_connections_max",
            "Most connections to one address, of all workers together.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._connection_wait = _BatchedHistogram(
            "narthex_endpoint_connection_wait_seconds",
            "Waits for a connection to an address, as all were busy.",
            ("address",),
            registry=registry,
            buckets=_WAIT_S,
        )
        self._shown_connections: dict[str, AddressConnections] = {}
        self._connection_waits: dict[str, list[float]] = {}
        self._room = Gauge(
            "narthex_requests_room", "Requests that may be in progress at once.", registry=registry, multiprocess_mode="livesum"
        )
        self._waiting_for_target = Gauge(
            "narthex_requests_waiting",
            "Requests that wait for a place at a target with `max_concurrency`.",
            ("target",),
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._shown_queues: set[str] = set()
        self._revocation_lag = Gauge(
            "narthex_revocation_lag_seconds",
            "Since a worker last knew that its cached keys were current; the worker with the longest time.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._certificate_expiry = Gauge(
            "narthex_tls_certificate_expiry_timestamp_seconds",
            "When the listeners' certificate, or the first of its chain, ends, as Unix time; 0: they have none.",
            registry=registry,
            multiprocess_mode="livemin",
        )
        self._spans_exported = Gauge(
            "narthex_otlp_spans_exported",
            "Spans that the collector has taken since the writer's start.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._spans_dropped = Gauge(
            "narthex_otlp_spans_dropped",
            "Spans that the collector did not take in time since the writer's start.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._access_lines_dropped = Counter(
            "narthex_access_log_lines_dropped", "Lines of the access log that were left out, as nobody took them.", registry=registry
        )
        self._learned_rules = Counter(
            "narthex_learned_rules",
            "Rules of models that hosts taught by refusing a request; each process counts those of its own requests.",
            ("provider", "rule"),
            registry=registry,
        )
        self._tasks_failing = Gauge(
            "narthex_background_tasks_failing",
            "Background tasks that failed in the last seconds; they are started again.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self._task_failures = Counter("narthex_background_task_failures", "Failures of background tasks.", ("task",), registry=registry)
        self._counted_task_failures: collections.Counter[str] = collections.Counter()
        self._rule_counts: collections.Counter[tuple[Counter, str]] = collections.Counter()
        self._admitted_locally = 0
        self._exchanges: list[Exchange] = []
        self.in_flight = 0

    def count_exchange(self, exchange: Exchange) -> None:
        """Keep it for the next flush(): updating a handful of locked counters now would be a tenth of what a request costs."""
        self._exchanges.append(exchange)

    def count_shadow(self, shadow: str, exchange: Exchange) -> None:
        self._shadows.labels(self._label_of(shadow), exchange.outcome).inc()
        self._shadow_cost.labels(self._label_of(shadow)).inc(max(0, exchange.cost_microusd or 0))

    def count_dropped_shadow(self, shadow: str, reason: str) -> None:
        self._dropped_shadows.labels(self._label_of(shadow), reason).inc()

    def count_refusal(self, status: int) -> None:
        self._refusals.labels(str(status)).inc()

    def count_limit_refusal(self, rule: str) -> None:
        self._rule_counts[self._limit_refusals, rule] += 1

    def count_limit_grants(self, rule: str, grants: int) -> None:
        self._rule_counts[self._limit_grants, rule] += grants

    def set_reservations(self, held: int, *, redis_losses: int) -> None:
        """`redis_losses`: since the start of this process."""
        self._reservations.set(held)
        if redis_losses > self._counted_redis_losses:
            self._redis_losses.inc(redis_losses - self._counted_redis_losses)
            self._counted_redis_losses = redis_losses

    def set_endpoints(self, states: Mapping[tuple[str, str], int], in_flight: Mapping[str, int]) -> None:
        """`states`: how many, by provider and state; `in_flight`: requests, by provider. Whatever is not there any more is shown with 0."""
        for each in {*self._shown_endpoints, *states}:
            self._endpoints.labels(*each).set(states.get(each, 0))
        for provider in {*self._shown_providers, *in_flight}:
            self._endpoint_requests.labels(provider).set(in_flight.get(provider, 0))
        self._shown_endpoints |= states.keys()
        self._shown_providers |= in_flight.keys()

    def set_stored_feedback(self, **counts: int) -> None:
        """`counts`: by state."""
        for state, count in counts.items():
            self._stored_feedback.labels(state).set(count)

    def set_writer(self, *, connected: bool, silent_s: float, stored: int) -> None:
        self._writer_connected.set(connected)
        self._writer_silent.set(silent_s)
        self._writer_stored.set(stored)

    def count_dry_run_refusal(self, rule: str) -> None:
        self._rule_counts[self._limit_dry_runs, rule] += 1

    def count_local_admission(self) -> None:
        self._admitted_locally += 1

    def set_redis_unavailable(self, unavailable: bool) -> None:
        self._redis_unavailable.set(unavailable)

    def set_limits_refusing(self, rules: int) -> None:
        self._limits_refusing.set(rules)

    def set_revocation_lag(self, lag_s: float) -> None:
        self._revocation_lag.set(lag_s)

    def set_room(self, requests: float) -> None:
        self._room.set(requests)

    def set_waiting(self, counts: Mapping[str, int]) -> None:
        """Sets how many requests wait, by target. A target where nobody waits any more is shown with 0."""
        for target in {*self._shown_queues, *counts}:
            self._waiting_for_target.labels(target).set(counts.get(target, 0))
        self._shown_queues |= counts.keys()

    def count_connection_wait(self, address: str, waited_s: float) -> None:
        """Records a wait for a connection. It is called only for requests that had to wait."""
        self._connection_waits.setdefault(address, []).append(waited_s)

    def set_connections(self, connections: Mapping[str, AddressConnections], max_connections: int) -> None:
        """`connections`: by address, which comes from the configuration. An address without any is shown with 0."""
        self._max_connections.set(max_connections)
        for address in {**self._shown_connections, **connections}:
            current = connections.get(address, _NO_CONNECTIONS)
            if self._shown_connections.get(address) != current:
                self._connections.labels(address, "busy").set(current.busy)
                self._connections.labels(address, "idle").set(current.idle)
                self._waiting_for_connection.labels(address).set(current.waiting)
        self._shown_connections = dict(connections)

    def set_background_tasks(self, *, failing: int, failure_counts: Mapping[str, int]) -> None:
        """`failure_counts`: by task, since the start of this process."""
        self._tasks_failing.set(failing)
        for task, count in failure_counts.items():
            if count > self._counted_task_failures[task]:
                self._task_failures.labels(task).inc(count - self._counted_task_failures[task])
                self._counted_task_failures[task] = count

    def count_learned_rule(self, provider: str, rule: str) -> None:
        self._learned_rules.labels(provider, rule).inc()

    def count_dropped_access_lines(self, lines: int) -> None:
        self._access_lines_dropped.inc(lines)

    def set_certificate_expiry(self, expires_at: float) -> None:
        """Sets when the certificate expires, in Unix time. It may be called in any thread."""
        self._certificate_expiry.set(expires_at)

    def set_export(self, *, exported_spans: int, dropped_spans: int) -> None:
        self._spans_exported.set(exported_spans)
        self._spans_dropped.set(dropped_spans)

    def count_feedback(self, metric: str, action: str) -> None:
        self._feedback.labels(metric, action).inc()

    def count_refused_feedback(self, error: str) -> None:
        self._refused_feedback.labels(error).inc()

    def count_replay(self, route: str) -> None:
        self._replays.labels(route).inc()

    def flush(self) -> None:
        """Update the metrics from everything counted since the last flush."""
        exchanges, self._exchanges = self._exchanges, []
        by_model: dict[tuple[str, str], list[Exchange]] = {}
        for exchange in exchanges:
            by_model.setdefault((exchange.route, self._label_of(exchange.model)), []).append(exchange)
        for (route, model), group in by_model.items():
            self._count_exchanges(route, model, group)
        waits, self._connection_waits = self._connection_waits, {}
        for address, waits_s in waits.items():
            self._connection_wait.labels(address).observe_all(waits_s)
        rule_counts, self._rule_counts = self._rule_counts, collections.Counter()
        for (counter, rule), count in rule_counts.items():
            counter.labels(rule).inc(count)
        self._limits_local.inc(self._admitted_locally)
        self._admitted_locally = 0
        self._in_flight.set(self.in_flight)

    def keep_models(self, models: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
        """The series of models and functions end with them. Called often, with the same objects while nothing has changed."""
        if self._live_of == (id(models), id(functions)):
            return
        self._live_of = id(models), id(functions)
        names = self._live_models = frozenset((*models, *functions))
        self._models &= names
        self._by_model = {key: metrics for key, metrics in self._by_model.items() if key[1] in names}

    def _label_of(self, model: str) -> str:
        """The model's one name, whichever prefix the caller gave it.

        Models come from the configuration, but there may be a new one with each version of it.
        """
        if model in self._models:
            return model
        for prefix in (*MODEL_PREFIXES, *FUNCTION_PREFIXES):
            model = model.removeprefix(prefix)
        if model in self._models:
            return model
        if len(self._models) >= _MAX_MODELS:
            return _OTHER
        self._models.add(model)
        return model

    def _count_exchanges(self, route: str, model: str, exchanges: list[Exchange]) -> None:
        duration, first_token, tokens_in, tokens_out = self._model_metrics(route, model)
        duration.observe_all([exchange.duration_us / 1e6 for exchange in exchanges])
        first_token.observe_all([exchange.first_token_us / 1e6 for exchange in exchanges if exchange.first_token_us is not None])
        tokens_in.inc(sum([_plausible_tokens(exchange.usage.input) for exchange in exchanges]))
        tokens_out.inc(sum([_plausible_tokens(exchange.usage.output) for exchange in exchanges]))
        cost_microusd = sum([max(0, exchange.cost_microusd or 0) for exchange in exchanges])
        if cost_microusd:
            self._cost.labels(model).inc(cost_microusd)
        endings = collections.Counter([(exchange.outcome, exchange.status) for exchange in exchanges])
        for (outcome, status), count in endings.items():
            self._requests.labels(route, model, outcome, str(status)).inc(count)
        for exchange in exchanges:
            for attempt in exchange.attempts:
                if attempt.error is not None:
                    self._attempt_failures.labels(attempt.provider, attempt.error).inc()

    def set_spool(self, *, size_bytes: int, oldest_s: float, lost: int, lost_content: int, quarantined: int) -> None:
        self._spool_bytes.set(size_bytes)
        self._spool_age.set(oldest_s)
        self._lost_records.set(lost)
        self._lost_content.set(lost_content)
        self._quarantined.set(quarantined)

    def _model_metrics(self, route: str, model: str) -> tuple[_BatchedHistogram, _BatchedHistogram, Counter, Counter]:
        metrics = self._by_model.get((route, model))
        if metrics is None:
            tokens = self._tokens.labels(model, "input"), self._tokens.labels(model, "output")
            metrics = self._by_model[route, model] = self._duration.labels(route, model), self._first_token.labels(route, model), *tokens
        return metrics

    def render(self) -> bytes:
        """The body of /metrics."""
        self.flush()
        return self.render_flushed()

    def render_flushed(self) -> bytes:
        """Returns the body that render() returns, as of the last flush(). It may be called in any thread."""
        registry = self._registry
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            registry = CollectorRegistry()
            multiprocess.MultiProcessCollector(registry)  # pyright: ignore[reportUnknownMemberType]
        shown = CollectorRegistry(auto_describe=False)
        shown.register(_LiveSeries(registry, self._live_models))
        return generate_latest(shown)


def _plausible_tokens(tokens: int | None) -> int:
    # An engine may report anything; an implausible count must not fail the request.
    return tokens if tokens is not None and 0 < tokens < _MAX_TOKENS else 0
