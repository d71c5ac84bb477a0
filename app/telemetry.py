"""Metrics, in Prometheus's words. With PROMETHEUS_MULTIPROC_DIR set (`narthex up` sets it) a scrape of any worker tells of all."""

import collections
import os

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

from app.domain import Exchange

CONTENT_TYPE = CONTENT_TYPE_LATEST

_LATENCY_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900)
_MOST_TOKENS = 2**31  # beyond what the record holds too


class Telemetry:
    """The metrics of one process, as of its last settle(). `in_flight`: requests that have not ended.

    Label values are configured names and closed sets, never a caller's words: their number is bounded.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
            # By default it asks the system for the process's id at each count.
            pid = os.getpid()
            values.ValueClass = values.MultiProcessValue(lambda: pid)  # pyright: ignore[reportUnknownMemberType]
        self._registry = registry
        self._in_flight = Gauge(
            "narthex_requests_in_flight", "Requests that have not ended yet.", registry=registry, multiprocess_mode="livesum"
        )
        self._requests = Counter(
            "narthex_requests",
            "Requests that reached an engine's plan, by how they ended.",
            ("route", "model", "outcome", "status"),
            registry=registry,
        )
        self._refusals = Counter(
            "narthex_refusals",
            "Requests refused before any plan was made (no key, malformed, unknown model ...).",
            ("status",),
            registry=registry,
        )
        self._duration = Histogram(
            "narthex_request_duration_seconds",
            "From the last byte of the request to the last of the answer.",
            ("route", "model"),
            registry=registry,
            buckets=_LATENCY_S,
        )
        self._first = Histogram(
            "narthex_first_token_seconds",
            "From the request to the first byte of a streamed answer.",
            ("route", "model"),
            registry=registry,
            buckets=_LATENCY_S,
        )
        self._tokens = Counter("narthex_tokens", "Tokens that engines reported.", ("model", "direction"), registry=registry)
        self._faults = Counter(
            "narthex_attempt_failures", "Attempts that failed, by provider and kind.", ("provider", "error"), registry=registry
        )
        self._spool_bytes = Gauge(
            "narthex_spool_bytes", "Bytes of records that wait for the writer.", registry=registry, multiprocess_mode="livemax"
        )
        self._spool_age = Gauge(
            "narthex_spool_oldest_seconds",
            "Age of the oldest record that waits for the writer.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._lost = Gauge("narthex_records_lost", "Records lost: 0, or a disk is full.", registry=registry, multiprocess_mode="livesum")
        self._lost_content = Gauge(
            "narthex_content_lost", "Records whose content was not kept, for want of space.", registry=registry, multiprocess_mode="livesum"
        )
        self._quarantined = Gauge(
            "narthex_records_quarantined",
            "Records that the writer set aside because they cannot be stored.",
            registry=registry,
            multiprocess_mode="livemax",
        )
        self._replays = Counter(
            "narthex_replays", "Answers told again to a retry with the same Idempotency-Key.", ("route",), registry=registry
        )
        self._of_model: dict[tuple[str, str], tuple[Histogram, Histogram, Counter, Counter]] = {}
        self._limit_refusals = Counter("narthex_limit_refusals", "Requests that limits refused, by rule.", ("rule",), registry=registry)
        self._limit_dry_runs = Counter(
            "narthex_limit_dry_run_refusals", "Requests that a rule on trial would have refused.", ("rule",), registry=registry
        )
        self._limits_local = Counter(
            "narthex_limits_local", "Requests admitted by this worker's share of their limits, as Redis was away.", registry=registry
        )
        self._redis_away = Gauge("narthex_redis_away", "Workers that cannot reach Redis.", registry=registry, multiprocess_mode="livesum")
        self._limited: collections.Counter[tuple[Counter, str]] = collections.Counter()
        self._admitted_locally = 0
        self._ended: list[Exchange] = []
        self.in_flight = 0

    def ended(self, exchange: Exchange) -> None:
        """Counted in the next settle(): a handful of locked counters would be a tenth of what a request costs."""
        self._ended.append(exchange)

    def refused(self, status: int) -> None:
        self._refusals.labels(str(status)).inc()

    def limit_reached(self, rule: str) -> None:
        self._limited[self._limit_refusals, rule] += 1

    def limit_would_refuse(self, rule: str) -> None:
        self._limited[self._limit_dry_runs, rule] += 1

    def limits_local(self) -> None:
        self._admitted_locally += 1

    def redis_away(self, away: bool) -> None:
        self._redis_away.set(away)

    def replayed(self, route: str) -> None:
        self._replays.labels(route).inc()

    def settle(self) -> None:
        """Brings the metrics up to date with what has happened."""
        ended, self._ended = self._ended, []
        counts: collections.Counter[tuple[str, str, str, int]] = collections.Counter()
        tokens: collections.Counter[Counter] = collections.Counter()
        for exchange in ended:
            counts[exchange.route, exchange.model, exchange.outcome, exchange.status] += 1
            duration, first, tokens_in, tokens_out = self._measures(exchange.route, exchange.model)
            duration.observe(exchange.duration_us / 1e6)
            if exchange.first_token_us is not None:
                first.observe(exchange.first_token_us / 1e6)
            tokens[tokens_in] += _counted(exchange.usage.input)
            tokens[tokens_out] += _counted(exchange.usage.output)
            for attempt in exchange.attempts:
                if attempt.error is not None:
                    self._faults.labels(attempt.provider, attempt.error).inc()
        for counter, count in tokens.items():
            counter.inc(count)
        for (route, model, outcome, status), count in counts.items():
            self._requests.labels(route, model, outcome, str(status)).inc(count)
        limited, self._limited = self._limited, collections.Counter()
        for (counter, rule), count in limited.items():
            counter.labels(rule).inc(count)
        self._limits_local.inc(self._admitted_locally)
        self._admitted_locally = 0
        self._in_flight.set(self.in_flight)

    def spool(self, *, size_bytes: int, oldest_s: float, lost: int, lost_content: int, quarantined: int) -> None:
        self._spool_bytes.set(size_bytes)
        self._spool_age.set(oldest_s)
        self._lost.set(lost)
        self._lost_content.set(lost_content)
        self._quarantined.set(quarantined)

    def _measures(self, route: str, model: str) -> tuple[Histogram, Histogram, Counter, Counter]:
        measures = self._of_model.get((route, model))
        if measures is None:
            tokens = self._tokens.labels(model, "input"), self._tokens.labels(model, "output")
            measures = self._of_model[route, model] = self._duration.labels(route, model), self._first.labels(route, model), *tokens
        return measures

    def page(self) -> bytes:
        """What /metrics answers."""
        self.settle()
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        multiprocess.MultiProcessCollector(together)  # pyright: ignore[reportUnknownMemberType]
        return generate_latest(together)


def _counted(tokens: int | None) -> int:
    # An engine may say anything; a count that is none must not cost the answer.
    return tokens if tokens is not None and 0 < tokens < _MOST_TOKENS else 0
