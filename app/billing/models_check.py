"""Compares lists of others with the prices and the rules of models that are known here. It only tells: nothing is changed."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from app.billing.price_index import PriceIndex
from app.billing.price_list import bundled_prices, candidate_names
from app.billing.public_lists import ListedModel, effort_flags
from app.domain.prices import Price
from app.domain.snapshot import Snapshot
from app.process.plain_numbers import plain_number
from providers.profiles.chat_models import find_chat_rules
from providers.profiles.claude.models import find_profile, states_known_version
from providers.profiles.gpt.models import find_rules

_CLAUDE = re.compile(r"claude-(?:opus|sonnet|haiku|fable|mythos)")
_CACHE_LIFETIME = ("cache_write", "cache_write_hour", "cache_write_12_hours")

Kind = Literal["new", "price", "rule", "unpriced", "unknown rules"]


class Difference(Struct, frozen=True):
    """A difference between a list and what we have. `ours` and `theirs` are text, or None if it is missing there.

    `source` is the list, or None for a difference within the gateway's own configuration.
    """

    kind: Kind
    provider: str
    model: str
    field: str | None = None
    ours: str | None = None
    theirs: str | None = None
    source: str | None = None


def compare_list(
    source: str, listed: Sequence[ListedModel], at_s: float, only: frozenset[str] | None = None, has_all_prices: bool = True
) -> Iterator[Difference]:
    """Differences between a list and what is known here.

    `only` are the providers that are compared, as price_list.toml names them; None means all that it has. Models without a row are reported
    as new; where `has_all_prices` is False, the list names models without prices.
    """
    index = PriceIndex([price for prices in bundled_prices().values() for price in prices])
    known_providers = {provider for provider, _ in bundled_prices()} if only is None else only
    seen: set[tuple[str, str]] = set()
    for each in listed:
        if each.provider not in known_providers or (each.provider, each.model) in seen:
            continue
        seen.add((each.provider, each.model))
        price = next(
            (found.price for name in candidate_names(each.provider, each.model) if (found := index.find(each.provider, name, at_s))), None
        )
        if price is None and (has_all_prices is False or each.prices):
            yield Difference("new", each.provider, each.model, theirs=_shown(each.prices), source=source)
        elif price is not None:
            yield from _price_differences(source, each, price)
        yield from _rule_differences(source, each)


def check_configuration(snapshot: Snapshot, at_s: float) -> Iterator[Difference]:
    """Models that targets name and that have no price now, or whose version no rule names."""
    index = PriceIndex(snapshot.prices)
    targets = {(target.provider, target.model) for model in snapshot.models.values() for target in model.targets}
    for provider, model in sorted(targets):
        if index.find(provider, model, at_s) is None:
            yield Difference("unpriced", provider, model)
        if _CLAUDE.search(model) and not states_known_version(model):
            yield Difference("unknown rules", provider, model, "version", ours="those of the newest version that is known")


def _price_differences(source: str, listed: ListedModel, price: Price) -> Iterator[Difference]:
    for field, theirs in listed.prices.items():
        ours = getattr(price, field)
        if ours is None and (theirs == 0 or theirs == price.input):
            continue  # as the input, or a list's way to say that there is none
        if field in _CACHE_LIFETIME and theirs == 0:
            continue
        if ours is None or abs(ours - theirs) > 1e-9 * max(1.0, abs(theirs)):
            shown = None if ours is None else f"{ours:g}"
            yield Difference("price", listed.provider, listed.model, field, shown, f"{theirs:g}", source)


def _rule_differences(source: str, listed: ListedModel) -> Iterator[Difference]:
    rules = _known_rules(listed.model)
    for flag, theirs in listed.flags.items():
        if flag in rules and rules[flag] != theirs:
            yield Difference("rule", listed.provider, listed.model, flag, _yes(rules[flag]), _yes(theirs), source)
    efforts = _known_efforts(listed.model)
    if efforts is not None:
        # Rules of other makers' models do not list `none`, nor do all lists.
        says_none = "none" in efforts or find_rules(listed.model) is not None
        for flag, effort, theirs in effort_flags(listed.flags):
            if (effort in efforts) != theirs and (effort != "none" or says_none):
                yield Difference("rule", listed.provider, listed.model, flag, _yes(effort in efforts), _yes(theirs), source)
        if listed.efforts is not None and set(listed.efforts) - {"none"} != set(efforts) - {"none"}:
            yield Difference("rule", listed.provider, listed.model, "efforts", ", ".join(efforts), ", ".join(listed.efforts), source)
    if listed.thinking and _CLAUDE.search(listed.model):
        off = find_profile(listed.model).thinking_off
        for name in ("disabled", "between_tools"):
            theirs = listed.thinking.get(name)
            # A model that takes `disabled` may take `between_tools` as well; the profile has one way to switch thinking off.
            if theirs is not None and (off == name) != theirs and not (theirs and off != "never"):
                yield Difference("rule", listed.provider, listed.model, f"thinking.{name}", _yes(off == name), _yes(theirs), source)


def _known_rules(model: str) -> Mapping[str, bool]:
    """Returns what our profiles know of a Claude model, by LiteLLM's names of the flags; empty for other models."""
    if not _CLAUDE.search(model):
        return {}
    profile = find_profile(model)
    return {
        "supports_forced_tool_use": profile.can_force_tool_call,
        "supports_sampling_params": profile.sampling != "never",
        "supports_assistant_prefill": profile.supports_prefill,
        "supports_mid_conversation_system": profile.mid_system == "yes",
    }


def _known_efforts(model: str) -> tuple[str, ...] | None:
    if _CLAUDE.search(model):
        return find_profile(model).efforts
    gpt = find_rules(model)
    if gpt is not None:
        return gpt.efforts or None
    chat = find_chat_rules(model)
    return None if chat is None or not chat.efforts else chat.efforts


def _shown(prices: Mapping[str, float]) -> str | None:
    return ", ".join(f"{field} {plain_number(usd)}" for field, usd in prices.items()) or None


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def sort_differences(differences: Iterable[Difference]) -> list[Difference]:
    return sorted(differences, key=lambda each: (each.kind, each.provider, each.model, each.field or ""))
