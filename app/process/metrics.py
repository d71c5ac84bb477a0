"""The metrics of Prometheus: one row each, from which they are registered. docs/operations.md describes them for operators.

A row is written as `attribute: kind = ...`, and code counts with the attribute: `metrics.replays.labels(route).inc()`.
Label values are configured names and closed sets, never text of a caller, so their number is bounded.
"""

import collections
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_WAIT_S = (0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120)


class BatchedHistogram(Histogram):
    """A histogram that takes many observations at once, as one locked update per bucket instead of two per observation."""

    def observe_all(self, amounts: Sequence[float]) -> None:
        if amounts:
            # A bucket counts amounts up to its bound, inclusive; the last bound is infinite.
            for bucket, count in collections.Counter([bisect_left(self._upper_bounds, amount) for amount in amounts]).items():
                self._buckets[bucket].inc(count)  # pyright: ignore[reportUnknownMemberType]
            self._sum.inc(sum(amounts))  # pyright: ignore[reportUnknownMemberType]


class _Row(Struct, frozen=True):
    kind: type[Counter] | type[Gauge] | type[BatchedHistogram]
    name: str
    text: str
    labels: tuple[str, ...]
    options: dict[str, Any]

    def register(self, registry: CollectorRegistry) -> Counter | Gauge | BatchedHistogram:
        return self.kind(self.name, self.text, self.labels, registry=registry, **self.options)


# How the values of all processes become one: their sum, the largest or the smallest; of those that live.
_Merge = Literal["livesum", "livemax", "livemin"]


def _counter(name: str, text: str, *labels: str) -> Any:
    return _Row(Counter, name, text, labels, {})


def _gauge(name: str, text: str, merge: _Merge, *labels: str) -> Any:
    return _Row(Gauge, name, text, labels, {"multiprocess_mode": merge})


def _histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Any:
    return _Row(BatchedHistogram, name, text, labels, {"buckets": buckets})


class Metrics:
    """The metrics of one process, registered."""

    in_flight: Gauge = _gauge("narthex_requests_in_flight", "Requests that have not ended yet.", "livesum")
    requests: Counter = _counter(
        "narthex_requests", "Requests that reached a plan, by how they ended.", "route", "model", "outcome", "status"
    )
    refusals: Counter = _counter(
        "narthex_refusals", "Requests refused before any plan was made (no key, invalid, unknown model ...).", "status"
    )
    duration: BatchedHistogram = _histogram(
        "narthex_request_duration_seconds",
        "From the last byte of the request to the last byte of the response.",
        _LATENCY_S,
        "route",
        "model",
    )
    first_token: BatchedHistogram = _histogram(
        "narthex_first_token_seconds", "From the request to the first byte of a streamed response.", _LATENCY_S, "route", "model"
    )
    tokens: Counter = _counter("narthex_tokens", "Tokens that engines reported.", "model", "direction")
    attempt_failures: Counter = _counter("narthex_attempt_failures", "Attempts that failed, by provider and kind.", "provider", "error")
    spool_bytes: Gauge = _gauge("narthex_spool_bytes", "Bytes of records not yet stored by the writer.", "livemax")
    spool_age: Gauge = _gauge(
        "narthex_spool_oldest_record_age_seconds", "Age of the oldest record not yet stored by the writer.", "livemax"
    )
    lost_records: Gauge = _gauge("narthex_records_lost", "Records lost; more than 0 only if a disk is full.", "livesum")
    lost_content: Gauge = _gauge("narthex_content_lost", "Records whose content was lost, as there was no space.", "livesum")
    quarantined: Gauge = _gauge("narthex_records_quarantined", "Records in quarantine, because they cannot be stored.", "livemax")
    replays: Counter = _counter("narthex_replays", "Responses sent again to a retry with the same Idempotency-Key.", "route")
    feedback: Counter = _counter(
        "narthex_feedback",
        "Feedback that was accepted, by metric (empty for what is withdrawn) and action: create, correct, withdraw.",
        "metric",
        "action",
    )
    refused_feedback: Counter = _counter(
        "narthex_feedback_refused", "Feedback that was refused as invalid, by the code of the error.", "error"
    )
    shadows: Counter = _counter("narthex_shadows", "Requests that a shadow answered again, by how that ended.", "shadow", "outcome")
    dropped_shadows: Counter = _counter(
        "narthex_shadows_dropped", "Requests drawn for a shadow and not sent, by reason.", "shadow", "reason"
    )
    shadow_cost: Counter = _counter("narthex_shadow_cost_microusd", "Cost of shadows, in millionths of a US dollar.", "shadow")
    stored_feedback: Gauge = _gauge(
        "narthex_writer_feedback",
        "Feedback that the writer has stored and matched since its start; conflicting: with the id of other feedback; unmatched:"
        " that has waited for minutes for its inference; given_up: that no longer waits, as its team has too much.",
        "livemax",
        "state",
    )
    cost: Counter = _counter("narthex_cost_microusd", "Cost of requests, in millionths of a US dollar.", "model")
    limit_grants: Counter = _counter("narthex_limit_grants", "Requests that a limit admitted, by rule.", "rule")
    reservations: Gauge = _gauge("narthex_limit_reservations", "Reservations that requests in progress hold against limits.", "livesum")
    redis_losses: Counter = _counter(
        "narthex_redis_memory_losses", "Times that Redis was found to have lost its memory, by whoever found it first."
    )
    endpoints: Gauge = _gauge(
        "narthex_endpoints", "Endpoints by their state, as the worker that sees most of them in it.", "livemax", "provider", "state"
    )
    endpoint_requests: Gauge = _gauge(
        "narthex_endpoint_requests_in_flight", "Requests that endpoints of a provider work on.", "livesum", "provider"
    )
    writer_connected: Gauge = _gauge("narthex_writer_connected", "1: the writer is connected to PostgreSQL.", "livemax")
    writer_silent: Gauge = _gauge("narthex_writer_silent_seconds", "Since the writer last reported, which it does each second.", "livemin")
    writer_stored: Gauge = _gauge("narthex_writer_inferences_stored", "Inferences that the writer has stored since its start.", "livemax")
    limit_refusals: Counter = _counter("narthex_limit_refusals", "Requests that limits refused, by rule.", "rule")
    limit_dry_runs: Counter = _counter("narthex_limit_dry_run_refusals", "Requests that a dry-run rule would have refused.", "rule")
    limits_local: Counter = _counter(
        "narthex_requests_admitted_locally", "Requests admitted by this worker's share of their limits, as Redis was unavailable."
    )
    redis_unavailable: Gauge = _gauge("narthex_redis_unavailable", "Workers that cannot reach Redis.", "livesum")
    limits_refusing: Gauge = _gauge(
        "narthex_limit_rules_refusing_after_loss",
        "Rules that refuse every request, as what was used is not known since Redis lost its memory.",
        "livemax",
    )
    connections: Gauge = _gauge(
        "narthex_endpoint_connections", "Connections to an address of engines or hosts.", "livesum", "address", "state"
    )
    waiting_for_connection: Gauge = _gauge(
        "narthex_endpoint_requests_waiting", "Requests that wait for a connection to an address.", "livesum", "address"
    )
    max_connections: Gauge = _gauge(
        "narthex_endpoint_connections_max", "Most connections to one address, of all workers together.", "livesum"
    )
    connection_wait: BatchedHistogram = _histogram(
        "narthex_endpoint_connection_wait_seconds", "Waits for a connection to an address, as all were busy.", _WAIT_S, "address"
    )
    room: Gauge = _gauge("narthex_requests_room", "Requests that may be in progress at once.", "livesum")
    waiting_for_target: Gauge = _gauge(
        "narthex_requests_waiting", "Requests that wait for a place at a target with `max_concurrency`.", "livesum", "target"
    )
    revocation_lag: Gauge = _gauge(
        "narthex_revocation_lag_seconds",
        "Since a worker last knew that its cached keys were current; the worker with the longest time.",
        "livemax",
    )
    certificate_expiry: Gauge = _gauge(
        "narthex_tls_certificate_expiry_timestamp_seconds",
        "When the listeners' certificate, or the first of its chain, ends, as Unix time; 0: they have none.",
        "livemin",
    )
    spans_exported: Gauge = _gauge("narthex_otlp_spans_exported", "Spans that the collector has taken since the writer's start.", "livemax")
    spans_dropped: Gauge = _gauge(
        "narthex_otlp_spans_dropped", "Spans that the collector did not take in time since the writer's start.", "livemax"
    )
    access_lines_dropped: Counter = _counter(
        "narthex_access_log_lines_dropped", "Lines of the access log that were left out, as nobody took them."
    )
    learned_rules: Counter = _counter(
        "narthex_learned_rules",
        "Rules of models that hosts taught by refusing a request; each process counts those of its own requests.",
        "provider",
        "rule",
    )
    tasks_failing: Gauge = _gauge(
        "narthex_background_tasks_failing", "Background tasks that failed in the last seconds; they are started again.", "livesum"
    )
    task_failures: Counter = _counter("narthex_background_task_failures", "Failures of background tasks.", "task")

    def __init__(self, registry: CollectorRegistry) -> None:
        for attribute, row in vars(Metrics).items():
            if isinstance(row, _Row):
                setattr(self, attribute, row.register(registry))
