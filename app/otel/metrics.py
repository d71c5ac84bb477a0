"""Metrics of all recorded exchanges since the start of this process, by a bounded number of attributes."""

import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)

from app.domain.exchange import Exchange
from app.otel import names
from app.otel.attributes import Value, to_attributes
from app.otel.directory import Directory
from app.otel.spans import address_of, error_type_of, response_model_of

# More, and what is new counts as one series: OpenTelemetry's cardinality limit.
_MAX_SERIES = 2000
_MAX_TOKENS = 2**31
_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE

Labels = tuple[tuple[str, Value | None], ...]
_OVERFLOW: Labels = ((names.OVERFLOW, True),)
_Point = TypeVar("_Point")


class _Buckets:
    __slots__ = ("count", "counts", "sum")

    def __init__(self, size: int) -> None:
        self.counts = [0] * size
        self.count = 0
        self.sum = 0.0


class _Series(Generic[_Point]):
    """The points of one metric, by their attributes."""

    def __init__(self) -> None:
        self.points: dict[Labels, _Point] = {}

    def labels(self, labels: Labels) -> Labels:
        """These, or those of the overflow."""
        return labels if labels in self.points or len(self.points) < _MAX_SERIES else _OVERFLOW


class _Measurement(Struct, frozen=True):
    name: str
    unit: str
    description: str


class _HistogramSeries(_Series[_Buckets]):
    def __init__(self, described: _Measurement, bounds: Sequence[float]) -> None:
        super().__init__()
        self._described = described
        self._bounds = bounds

    def observe(self, labels: Labels, amount: float) -> None:
        labels = self.labels(labels)
        buckets = self.points.get(labels)
        if buckets is None:
            buckets = self.points[labels] = _Buckets(len(self._bounds) + 1)
        buckets.counts[bisect_left(self._bounds, amount)] += 1
        buckets.count += 1
        buckets.sum += amount

    def to_metric(self, since_ns: int, now_ns: int) -> Metric:
        points = [
            HistogramDataPoint(
                attributes=to_attributes(dict(labels)),
                start_time_unix_nano=since_ns,
                time_unix_nano=now_ns,
                count=buckets.count,
                sum=buckets.sum,
                bucket_counts=buckets.counts,
                explicit_bounds=self._bounds,
            )
            for labels, buckets in self.points.items()
        ]
        described = self._described
        histogram = Histogram(data_points=points, aggregation_temporality=_CUMULATIVE)
        return Metric(name=described.name, unit=described.unit, description=described.description, histogram=histogram)


class _CounterSeries(_Series[float]):
    def __init__(self, described: _Measurement) -> None:
        super().__init__()
        self._described = described

    def add(self, labels: Labels, amount: float) -> None:
        labels = self.labels(labels)
        self.points[labels] = self.points.get(labels, 0) + amount

    def to_metric(self, since_ns: int, now_ns: int) -> Metric:
        points = [
            NumberDataPoint(attributes=to_attributes(dict(labels)), start_time_unix_nano=since_ns, time_unix_nano=now_ns, as_double=amount)
            for labels, amount in self.points.items()
        ]
        total = Sum(data_points=points, aggregation_temporality=_CUMULATIVE, is_monotonic=True)
        described = self._described
        return Metric(name=described.name, unit=described.unit, description=described.description, sum=total)


class ExchangeMetrics:
    """Counts each exchange once, when it is stored."""

    def __init__(self) -> None:
        self._since_ns = time.time_ns()
        self._duration = _HistogramSeries(
            _Measurement(names.DURATION, "s", "Duration of inferences, with all of their attempts."), names.DURATION_BOUNDS_S
        )
        self._first_chunk = _HistogramSeries(
            _Measurement(names.FIRST_CHUNK, "s", "Time until the first chunk of a streamed response."), names.DURATION_BOUNDS_S
        )
        self._tokens = _HistogramSeries(
            _Measurement(names.TOKEN_USAGE, "{token}", "Tokens of inferences, as engines report them."), names.TOKEN_BOUNDS
        )
        self._cost = _CounterSeries(_Measurement(names.COST, "USD", "Cost of inferences, where prices are known."))
        self._attempt_failures = _CounterSeries(_Measurement(names.ATTEMPT_FAILURES, "{attempt}", "Attempts that failed."))

    def count(self, exchange: Exchange, directory: Directory) -> None:
        address, port = address_of(exchange.endpoint)
        shared: Labels = (
            (names.OPERATION, names.OPERATIONS.get(exchange.route, exchange.route)),
            (names.PROVIDER, directory.provider_of(exchange.served_provider)),
            (names.REQUEST_MODEL, exchange.model),
            (names.RESPONSE_MODEL, response_model_of(exchange)),
            (names.SERVER_ADDRESS, address),
            (names.SERVER_PORT, port),
        )
        self._duration.observe((*shared, (names.ERROR_TYPE, error_type_of(exchange))), exchange.duration_us / 1e6)
        if exchange.streamed and exchange.first_token_us is not None:
            self._first_chunk.observe(shared, exchange.first_token_us / 1e6)
        for kind, tokens in (("input", exchange.usage.input), ("output", exchange.usage.output)):
            if tokens is not None and 0 <= tokens < _MAX_TOKENS:
                self._tokens.observe((*shared, (names.TOKEN_TYPE, kind)), tokens)
        if exchange.cost_microusd:
            team = directory.teams.get(exchange.team_id, exchange.team_id)
            by = ((names.TEAM, team), (names.PROVIDER, shared[1][1]), (names.REQUEST_MODEL, exchange.model))
            self._cost.add(by, exchange.cost_microusd / 1e6)
        for attempt in exchange.attempts:
            if attempt.error is not None and attempt.endpoint:
                self._attempt_failures.add(((names.ATTEMPT_PROVIDER, attempt.provider), (names.ERROR_TYPE, attempt.error)), 1)

    def to_metrics(self) -> list[Metric]:
        """Returns all metrics that have points."""
        now_ns = time.time_ns()
        series = (self._duration, self._first_chunk, self._tokens, self._cost, self._attempt_failures)
        return [each.to_metric(self._since_ns, now_ns) for each in series if each.points]
