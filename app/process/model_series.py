"""The series of models: the name by which a model counts, and what its exchanges add up to."""

import collections
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client import Counter

from app.domain.exchange import Exchange
from app.domain.functions import FUNCTION_PREFIXES
from app.domain.routing import MODEL_PREFIXES
from app.process.metrics import BatchedHistogram, Metrics

# The label of any model beyond _MAX_MODELS.
OTHER = "other"
_MAX_MODELS = 2_000
_MAX_TOKENS = 2**31  # more than the record can hold, too


class ModelSeries:
    """Counts exchanges in the metrics of a process."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._models: set[str] = set()
        self.live_models: frozenset[str] | None = None  # the models and functions that exist; None: not known yet
        self._live_of = (0, 0)
        self._by_model: dict[tuple[str, str], tuple[BatchedHistogram, BatchedHistogram, Counter, Counter]] = {}

    def count(self, exchanges: Sequence[Exchange]) -> None:
        by_model: dict[tuple[str, str], list[Exchange]] = {}
        for exchange in exchanges:
            by_model.setdefault((exchange.route, self.label_of(exchange.model)), []).append(exchange)
        for (route, model), group in by_model.items():
            self._count_exchanges(route, model, group)

    def keep(self, models: Mapping[str, Any], functions: Mapping[str, Any]) -> None:
        """The series of models and functions end with them. Called often, with the same objects while nothing has changed."""
        if self._live_of == (id(models), id(functions)):
            return
        self._live_of = id(models), id(functions)
        names = self.live_models = frozenset((*models, *functions))
        self._models &= names
        self._by_model = {key: metrics for key, metrics in self._by_model.items() if key[1] in names}

    def label_of(self, model: str) -> str:
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
            return OTHER
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
            self._metrics.cost.labels(model).inc(cost_microusd)
        endings = collections.Counter([(exchange.outcome, exchange.status) for exchange in exchanges])
        for (outcome, status), count in endings.items():
            self._metrics.requests.labels(route, model, outcome, str(status)).inc(count)
        for exchange in exchanges:
            for attempt in exchange.attempts:
                if attempt.error is not None:
                    self._metrics.attempt_failures.labels(attempt.provider, attempt.error).inc()

    def _model_metrics(self, route: str, model: str) -> tuple[BatchedHistogram, BatchedHistogram, Counter, Counter]:
        series = self._by_model.get((route, model))
        if series is None:
            metrics = self._metrics
            tokens = metrics.tokens.labels(model, "input"), metrics.tokens.labels(model, "output")
            times = metrics.duration.labels(route, model), metrics.first_token.labels(route, model)
            series = self._by_model[route, model] = *times, *tokens
        return series


def _plausible_tokens(tokens: int | None) -> int:
    # An engine may report anything; an implausible count must not fail the request.
    return tokens if tokens is not None and 0 < tokens < _MAX_TOKENS else 0
