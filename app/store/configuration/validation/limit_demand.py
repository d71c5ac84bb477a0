"""Computes what requests reserve whose caller does not bound the response.

It serves to warn of limits that such requests can never fit.
"""

import functools
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from app.domain.functions import VariantConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import Target
from app.domain.serving_models import serving_models
from app.domain.snapshot import Snapshot

_MICROUSD = 1_000_000
Prices = Mapping[tuple[str, str], Sequence[Price]]


class Reserved(NamedTuple):
    """The amount that one request reserves.

    `is_unpriced` says that a target that may serve the request has no price.
    """

    tokens: float
    cost_usd: float
    is_unpriced: bool


class _Names:
    """The names of models, or of functions, in order.

    They are found once for all rules about each of them, of which there may be many.
    """

    def __init__(self, reserved: Mapping[str, Reserved]) -> None:
        self._reserved = reserved
        self.unpriced: Collection[str] = {name: None for name in sorted(reserved) if reserved[name].is_unpriced}
        self._descending: dict[str, list[tuple[float, str]]] = {}
        self._highest: dict[tuple[str, int], Collection[str]] = {}

    def above(self, limit: Limit) -> Collection[str]:
        """Those of which one request reserves more of the rule's resource than it allows."""
        if limit.resource not in ("output_tokens", "tokens", "cost_usd"):
            return ()
        if limit.resource not in self._descending:
            amounts = ((_amount(each, limit), name) for name, each in self._reserved.items())
            self._descending[limit.resource] = sorted(amounts, reverse=True)
        descending = self._descending[limit.resource]
        count = bisect_left(descending, -limit.amount, key=lambda each: -each[0])
        if (limit.resource, count) not in self._highest:
            self._highest[limit.resource, count] = sorted(name for _, name in descending[:count])
        return self._highest[limit.resource, count]


class Demand:
    """The amounts that requests reserve, by model or function.

    `prices` are those that count today. `output_tokens` is the setting for models without one of their own; None means that it is unknown.
    Of a rule about functions the names are those of functions, else of models that `may_use` permits.
    """

    def __init__(
        self, snapshot: Snapshot, prices: Prices, output_tokens: int | None, may_use: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._snapshot = snapshot
        self._prices = prices
        self._output_tokens = output_tokens
        models = snapshot.models
        self._own = {name: self._of_targets(model.targets, self._tokens_of(name)) for name, model in models.items()}
        # A model with an experiment reserves what the arm's model does.
        self._by_model = {name: _highest(self._own[each] for each in serving_models(models, name)) for name in filter(may_use, models)}

    def of_targets(self, model: str) -> Reserved:
        """Returns what a model reserves by its own targets alone, without those of its experiment's arms."""
        return self._own[model]

    def without_price(self, limit: Limit) -> Collection[str]:
        """Those that the rule is about, and that a target without a price may serve."""
        return self._names_of(limit).unpriced

    def above(self, limit: Limit) -> Collection[str]:
        """Those that the rule is about, and of which one request reserves more of its resource than it allows."""
        return self._names_of(limit).above(limit)

    def _names_of(self, limit: Limit) -> _Names:
        model, function = limit.scope.get("model", "each"), limit.scope.get("function")
        if function is None:
            return self._all_models if model == "each" else _Names({model: self._by_model[model]})
        if function == "each":
            return self._all_functions if model == "each" else self._functions_by_model.get(model, _NO_NAMES)
        return _Names({function: found}) if (found := self._of_function(function, model)) is not None else _NO_NAMES

    @functools.cached_property
    def _all_models(self) -> _Names:
        return _Names(self._by_model)

    @functools.cached_property
    def _all_functions(self) -> _Names:
        found = ((name, self._of_function(name, "each")) for name in self._snapshot.functions)
        return _Names({name: reserved for name, reserved in found if reserved is not None})

    @functools.cached_property
    def _functions_by_model(self) -> Mapping[str, _Names]:
        found: dict[str, dict[str, Reserved]] = {}
        for name, function in self._snapshot.functions.items():
            for model in {variant.model for variant in function.variants.values()}:
                reserved = self._of_function(name, model)
                assert reserved is not None
                found.setdefault(model, {})[name] = reserved
        return {model: _Names(functions) for model, functions in found.items()}

    def _of_function(self, name: str, model: str) -> Reserved | None:
        """Returns what a function reserves by whichever of its variants that use the model reserves most.

        Returns None if none uses it. What templates add is not counted.
        """
        variants = [each for each in self._snapshot.functions[name].variants.values() if model in ("each", each.model)]
        return _highest(map(self._of_variant, variants)) if variants else None

    def _of_variant(self, variant: VariantConfig) -> Reserved:
        tokens = next((float(each) for each in _bounds(variant.params)), None)
        return self._own[variant.model] if tokens is None else self._of_targets(self._snapshot.models[variant.model].targets, tokens)

    def _tokens_of(self, model: str) -> float:
        return float(self._snapshot.models[model].output_tokens or self._output_tokens or 0)

    def _of_targets(self, targets: Sequence[Target], tokens: float) -> Reserved:
        of_each = [self._prices.get((each.provider, each.model), ()) for each in targets]
        highest = max((_output_usd(price) for prices in of_each for price in prices), default=0.0)
        return Reserved(tokens, tokens * highest / _MICROUSD, not all(of_each))


_NO_NAMES = _Names({})


def _bounds(params: Mapping[str, object]) -> Iterator[int]:
    """Yields how many tokens a variant allows responses, if it bounds them."""
    for name in ("max_completion_tokens", "max_tokens"):
        value = params.get(name)
        if isinstance(value, int):
            yield value


def _highest(of_each: Iterable[Reserved]) -> Reserved:
    found = list(of_each)
    tokens, costs = [each.tokens for each in found], [each.cost_usd for each in found]
    return Reserved(max(tokens, default=0.0), max(costs, default=0.0), any(each.is_unpriced for each in found))


def _amount(reserved: Reserved, limit: Limit) -> float:
    return reserved.cost_usd if limit.resource == "cost_usd" else reserved.tokens


def _output_usd(price: Price) -> float:
    """Returns what is reserved for a million output tokens, in US dollars."""
    gpu = price.gpu
    if gpu is None:
        return price.output or 0.0
    return gpu.usd_per_hour * gpu.gpus / gpu.concurrency / 3600 / gpu.tokens_per_s * 1_000_000
