"""The price list that comes with the program (price_list.toml), and what of it is suggested for the models that targets name."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from app.domain import Directory, Price, Target
from app.insight.prices import price_of
from app.store.file import read_file
from providers.catalogue import ADAPTERS

# What may stand before a model's name, by adapter, and says only where it is asked. Not `global.`: on Bedrock that is cheaper.
_PLACES: Mapping[str, Sequence[str]] = {
    "bedrock": ("us.", "eu.", "apac.", "au.", "jp."),
    "gemini": ("models/",),
    "vertex": ("publishers/google/models/", "google/"),
}
_DATE = re.compile(r"(?:-\d{4}-\d\d-\d\d|[-@]\d{8}|@default)$")


class Suggestion(Struct, frozen=True):
    """For a model that targets name, by the provider's name in the configuration and its own name for the model.

    `prices`: the list's, in these names; none: `why` tells. `found_as`: the list's name for it. `has_price`: one is in force already.
    """

    provider: str
    model: str
    prices: tuple[Price, ...] = ()
    found_as: str = ""
    has_price: bool = False
    why: str = ""


@functools.cache
def price_list() -> Mapping[tuple[str, str], tuple[Price, ...]]:
    """By adapter and model; in the order of their first days."""
    found: dict[tuple[str, str], tuple[Price, ...]] = {}
    for price in read_file((Path(__file__).parent / "price_list.toml").read_text(encoding="utf-8")).prices or ():
        of = price.provider, price.model
        found[of] = tuple(sorted((*found.get(of, ()), price), key=lambda each: each.since or ""))
    return found


def suggest(directory: Directory, at_s: float, provider: str | None = None) -> list[Suggestion]:
    """For every model of every provider that a target names, or of one provider, in the configuration's order."""
    named: dict[tuple[str, str], list[Target]] = {}
    for model in directory.models.values():
        for target in model.targets:
            if provider in (None, target.provider):
                named.setdefault((target.provider, target.model), []).append(target)
    return [_suggest(directory, targets, at_s) for targets in named.values()]


def names(adapter: str, model: str) -> Iterator[str]:
    """What a model may be called in the list, the surest first: its name as it is; without what only says where it is asked (`models/`,
    `us.`); without a date at its end (`-2025-08-07`, `@20251001`, `@default`) too. All else, such as `-latest`, is part of a name."""
    place = next((each for each in _PLACES.get(adapter, ()) if model.startswith(each)), "")
    for name in (model, model.removeprefix(place)):
        yield name
        yield _DATE.sub("", name)


def _suggest(directory: Directory, targets: Sequence[Target], at_s: float) -> Suggestion:
    provider, model = targets[0].provider, targets[0].model
    config = directory.providers[provider]
    nothing = Suggestion(provider, model, has_price=price_of(directory, provider, model, at_s) is not None)
    addresses = {address for target in targets for address in target.endpoints or (config.base_url,)}
    if config.adapter not in {of for of, _ in price_list()}:
        return replace(nothing, why=f"the list has no prices of {config.adapter}; an engine of your own may have one too, or 0")
    if elsewhere := sorted(each for each in addresses if each is not None and not _is_of_the_host(config.adapter, each)):
        return replace(nothing, why=f"it is asked at {elsewhere[0]}, which is not the host whose prices the list has")
    name = next((each for each in names(config.adapter, model) if (config.adapter, each) in price_list()), None)
    if name is None:
        return replace(nothing, why="it is not in the list")
    prices = tuple(replace(each, provider=provider, model=model) for each in price_list()[config.adapter, name])
    return replace(nothing, prices=prices, found_as=name)


def _is_of_the_host(adapter: str, address: str) -> bool:
    return urlsplit(address).hostname == urlsplit(ADAPTERS[adapter].default_base_url or "").hostname
