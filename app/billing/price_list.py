"""The bundled price list (price_list.toml), and the prices it suggests for the models that targets name."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from app.billing.price_index import find_price
from app.domain.prices import Price
from app.domain.routing import ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.store.configuration.config_file import parse_config_file
from providers.catalogue import ADAPTERS, is_claude_on_azure
from providers.hosted.azure.resource import serves_claude

# Prefixes of a model's name, by adapter, that name only a location. Not `global.`: on Bedrock that is cheaper.
_LOCATION_PREFIXES: Mapping[str, Sequence[str]] = {
    "bedrock": ("us.", "eu.", "apac.", "au.", "jp."),
    "gemini": ("models/",),
    "vertex": ("publishers/google/models/", "google/"),
}
_DATE = re.compile(r"(?:-\d{4}-\d\d-\d\d|[-@]\d{8}|@default)$")


class Suggestion(Struct, frozen=True):
    """Prices for a model that targets name."""

    provider: str  # its configured name
    model: str  # the provider's name of the model
    prices: tuple[Price, ...] = ()  # the list's, under these names; if empty, `reason` says why
    listed_as: str = ""  # the list's name of the model
    has_price: bool = False  # whether the configuration has a price in force already
    reason: str = ""


@functools.cache
def bundled_prices() -> Mapping[tuple[str, str], tuple[Price, ...]]:
    """The list by adapter and model, each in the order of the first days."""
    prices: dict[tuple[str, str], tuple[Price, ...]] = {}
    for price in parse_config_file((Path(__file__).parent / "price_list.toml").read_text(encoding="utf-8")).prices or ():
        key = price.provider, price.model
        prices[key] = tuple(sorted((*prices.get(key, ()), price), key=lambda each: each.since or ""))
    return prices


def suggest_prices_for_targets(snapshot: Snapshot, at_s: float, provider: str | None = None) -> list[Suggestion]:
    """A suggestion for every model that a target names, or for those of one provider, in the configuration's order."""
    targets_by_model: dict[tuple[str, str], list[Target]] = {}
    for model in snapshot.models.values():
        for target in model.targets:
            if provider in (None, target.provider):
                targets_by_model.setdefault((target.provider, target.model), []).append(target)
    return [_suggest_for_model(snapshot, targets, at_s) for targets in targets_by_model.values()]


def candidate_names(adapter: str, model: str) -> Iterator[str]:
    """Names that a model may have in the list, the surest first: its own name, then without a date at its end (`-2025-08-07`,
    `@20251001`, `@default`); the same without a location (`models/`, `us.`). Anything else, such as `-latest`, is part of the name.
    """
    location = next((each for each in _LOCATION_PREFIXES.get(adapter, ()) if model.startswith(each)), "")
    for name in (model, model.removeprefix(location)):
        yield name
        yield _DATE.sub("", name)


def _suggest_for_model(snapshot: Snapshot, targets: Sequence[Target], at_s: float) -> Suggestion:
    provider, model = targets[0].provider, targets[0].model
    config = snapshot.providers[provider]
    listed_provider = _listed_provider(config)
    no_prices = Suggestion(provider, model, has_price=find_price(snapshot, provider, model, at_s) is not None)
    addresses = {address for target in targets for address in target.endpoints or (config.base_url,)}
    if listed_provider not in {of for of, _ in bundled_prices()}:
        return replace(no_prices, reason=f"the list has no prices of {config.adapter}; for an engine of your own you can set one, or 0")
    if other_addresses := sorted(each for each in addresses if each is not None and not _is_official_address(listed_provider, each)):
        return replace(no_prices, reason=f"it is called at {other_addresses[0]}, which is not the host whose prices the list has")
    named = _deployed_model(config, model)
    name = next((each for each in candidate_names(config.adapter, named) if (listed_provider, each) in bundled_prices()), None)
    if name is None:
        return replace(no_prices, reason="it is not in the list")
    prices = tuple(replace(each, provider=provider, model=model) for each in bundled_prices()[listed_provider, name])
    return replace(no_prices, prices=prices, listed_as=name)


def _listed_provider(config: ProviderConfig) -> str:
    """The adapter whose prices hold: the configured one, or that of the host which a provider with the adapter openai is called at.

    Claude on Foundry costs what Anthropic asks: https://platform.claude.com/docs/en/about-claude/pricing, read 2026-11.
    """
    if is_claude_on_azure(config.adapter, config.options, config.base_url):
        return "anthropic"
    if config.adapter != "openai" or config.base_url is None:
        return config.adapter
    hosts = (name for name, _ in bundled_prices() if name != "openai" and _is_official_address(name, config.base_url))
    return next(hosts, config.adapter)


def _deployed_model(config: ProviderConfig, model: str) -> str:
    """The model of a deployment whose name does not tell it, by the option of Claude on Foundry."""
    deployments = config.options.get("deployments")
    return str(deployments.get(model, model)) if isinstance(deployments, dict) else model  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _is_official_address(adapter: str, address: str) -> bool:
    if adapter == "anthropic" and serves_claude(address):
        return True
    return urlsplit(address).hostname == urlsplit(ADAPTERS[adapter].default_base_url or "").hostname
