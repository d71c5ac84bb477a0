"""The facts that callers may know of a model before they use it.

These are its age, its context length, its capabilities and its price. Nothing is guessed.
"""

from msgspec import Struct

from app.billing.price_index import find_price
from app.domain.prices import Price, PriceStep
from app.domain.routing import Capability, Target
from app.domain.serving_models import serving_models
from app.domain.snapshot import Snapshot
from app.gateway.fleet.endpoint_table import EndpointTable
from app.gateway.routing.plan import choose_variant


class Pricing(Struct, frozen=True, omit_defaults=True):
    """US dollars for a million tokens; absent: priced as plain input or output."""

    currency: str
    per_tokens: int
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    cache_write_hour: float | None = None
    cache_write_12_hours: float | None = None
    audio_input: float | None = None
    audio_output: float | None = None
    image_input: float | None = None
    steps: tuple[PriceStep, ...] = ()  # of longer requests


class ModelFacts(Struct, frozen=True):
    """The facts about a model.

    None (0 for `created`) means that it is not known, or not the same wherever the model is served.
    """

    created: int
    context_length: int | None
    capabilities: tuple[Capability, ...] | None
    pricing: Pricing | None


def model_facts(snapshot: Snapshot, table: EndpointTable, name: str, now_s: float) -> ModelFacts:
    model = snapshot.models[name]
    served_by = [snapshot.models[each] for each in serving_models(snapshot.models, name)]
    capabilities = {each.capabilities for each in served_by}
    return ModelFacts(
        snapshot.models_created.get(name, 0),
        model.context_length or _shortest([each.context_length or _probed_context_length(table, each.targets) for each in served_by]),
        model.capabilities or (capabilities.pop() if len(capabilities) == 1 else None) or None,
        _pricing([find_price(snapshot, each.provider, each.model, now_s) for served in served_by for each in served.targets]),
    )


def function_facts(snapshot: Snapshot, table: EndpointTable, name: str, now_s: float) -> ModelFacts:
    """Returns the facts about the model of a function's variant.

    With several variants, each has facts of its own, so that only `created` is known.
    """
    function, created = snapshot.functions[name], snapshot.models_created.get(name, 0)
    facts = model_facts(snapshot, table, function.variants[choose_variant(name, function, None)].model, now_s)
    if len(function.variants) > 1:
        return ModelFacts(created, None, None, None)
    return ModelFacts(created, facts.context_length, facts.capabilities, facts.pricing)


def _shortest(lengths: list[int | None]) -> int | None:
    """Returns the shortest length, or None as soon as one is not known."""
    known = [each for each in lengths if each is not None]
    return min(known, default=None) if len(known) == len(lengths) else None


def _probed_context_length(table: EndpointTable, targets: tuple[Target, ...]) -> int | None:
    """The shortest of all endpoints, which every request fits that fits it; None as soon as one of them does not report it."""
    lengths: list[int] = []
    for target in targets:
        served = target.lora or target.model
        endpoints = table.endpoints_of(target)
        for endpoint in endpoints:
            models = endpoint.probe_result.models if endpoint.probe_result is not None else None
            length = next((each.context_length for each in models or () if each.id == served), None)
            if length is None:
                return None
            lengths.append(length)
        if not endpoints:
            return None
    return min(lengths, default=None)


def _pricing(prices: list[Price | None]) -> Pricing | None:
    priced = {_to_pricing(each) if each is not None else None for each in prices}
    return priced.pop() if len(priced) == 1 else None


def _to_pricing(price: Price) -> Pricing | None:
    """Returns the price as callers see it, or None for an engine whose time is priced."""
    if price.input is None or price.output is None:
        return None
    return Pricing(
        "USD",
        1_000_000,
        price.input,
        price.output,
        price.cached_input,
        price.cache_write,
        price.cache_write_hour,
        price.cache_write_12_hours,
        price.audio_input,
        price.audio_output,
        price.image_input,
        price.steps,
    )
