"""What a limit may say, which limits contradict each other, and what of them is probably not meant."""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime

from msgspec import Struct

from app.domain import Directory, Limit, ModelConfig, Price
from app.store.file import BadConfiguration, limit_place
from app.store.zones import NoZone, find_zone

_KEY = re.compile(r"nx-[0-9a-f]{12}")
_CALENDAR = ("day", "month")
# What is counted, tokens and millionths of a dollar, stays a whole number in Redis's doubles.
_MOST = 2**53
_MICROUSD = 1_000_000
_NAMED_AT_MOST = 3


class Known(Struct, frozen=True):
    """What lies beside the directory. `output_tokens`: what is reserved for models that do not say it themselves; None: not known here."""

    teams: Collection[str] = ()
    keys: Collection[str] = ()
    output_tokens: int | None = None


def check(wanted: Directory) -> None:
    """Raises BadConfiguration for the first rule that could not be kept, or that contradicts another."""
    met: dict[object, Limit] = {}
    names: set[str] = set()
    for limit in wanted.limits:
        if limit.name in names:
            raise BadConfiguration(f"{limit_place(limit.name)} is there twice.")
        names.add(limit.name)
        _check_scope(limit, wanted.models)
        _check_period(limit)
        _check_amount(limit)
        if not limit.dry_run:
            other = met.setdefault(_about(limit), limit)
            if other.amount != limit.amount:
                raise BadConfiguration(
                    f"{limit_place(limit.name)} contradicts {limit_place(other.name)}: of the same scope, resource and period, "
                    f"one allows {limit.amount:g} and the other {other.amount:g}. Remove one, or let it be a `dry_run`."
                )


def warnings(wanted: Directory, known: Known, today: date | None = None) -> list[str]:
    """In sentences, each with its place. `today`: in UTC; None: it is looked up. A price that begins later is none yet."""
    day = (today or datetime.now(UTC).date()).isoformat()
    prices: dict[tuple[str, str], list[Price]] = {}
    for price in wanted.prices:
        if price.since is not None and price.since > day:
            continue
        prices.setdefault((price.provider, price.model), []).append(price)
    met: dict[object, Limit] = {}
    told: list[str] = []
    for limit in wanted.limits:
        place = limit_place(limit.name)
        told += [f"{place}{each}" for each in _warnings(limit, wanted.models, prices, known)]
        other = met.setdefault((_about(limit), limit.amount, limit.dry_run), limit)
        if other is not limit:
            told.append(f"{place} says the same as {limit_place(other.name)}: one of them is enough.")
    return told


def _about(limit: Limit) -> object:
    """Two rules that agree in this take from the same."""
    zone = limit.time_zone if limit.per in _CALENDAR else None
    return frozenset(limit.scope.items()), limit.resource, limit.per, zone


def _check_scope(limit: Limit, models: Mapping[str, ModelConfig]) -> None:
    place = f"{limit_place(limit.name)}.scope"
    if not limit.scope:
        raise BadConfiguration(f'{place} is empty. For everything together, say {{ all = "each" }}.')
    for dimension, of in limit.scope.items():
        if dimension == "tag" or (dimension.startswith("tag:") and not _is_name(dimension[4:])):
            raise BadConfiguration(f'{place}: {dimension!r} names no tag. Say which, such as "tag:tenant".')
        if dimension not in ("key", "team", "model", "all") and not dimension.startswith("tag:"):
            raise BadConfiguration(f"{place}: there is no dimension {dimension!r}. There are: key, team, model, tag:NAME, all.")
        if not _is_name(of):
            raise BadConfiguration(f'{place}.{dimension} must be "each" or one name; {of!r} is none.')
        if dimension == "key" and of != "each" and not _KEY.fullmatch(of):
            raise BadConfiguration(
                f'{place}.key must be "each" or a key\'s public part, nx- and 12 hex digits (`narthex keys list` shows it).'
            )
        if dimension == "model" and of != "each" and of not in models:
            there_are = ", ".join(sorted(models)) or "none yet"
            raise BadConfiguration(f"{place}.model: there is no model {of!r}. There are: {there_are}.")
    if "all" in limit.scope and (len(limit.scope) > 1 or limit.scope["all"] != "each"):
        raise BadConfiguration(f'{place}: `all` is everything together, and stands alone: {{ all = "each" }}.')


def _is_name(said: str) -> bool:
    return bool(said) and said == said.strip() and said.isprintable()


def _check_period(limit: Limit) -> None:
    place = limit_place(limit.name)
    if limit.resource == "concurrency" and limit.per is not None:
        raise BadConfiguration(f"{place}.per: concurrency is what is under way at once, and has no period.")
    if limit.resource != "concurrency" and limit.per is None:
        raise BadConfiguration(f"{place}.per is needed: second, minute, hour, day or month.")
    if limit.time_zone != "UTC" and limit.per not in _CALENDAR:
        raise BadConfiguration(f"{place}.time_zone is for days and months; any {limit.per or 'moment'} is as long everywhere.")
    try:
        find_zone(limit.time_zone)
    except NoZone as fault:
        raise BadConfiguration(f"{place}.time_zone: {fault}") from None


def _check_amount(limit: Limit) -> None:
    place, amount = f"{limit_place(limit.name)}.amount", limit.amount
    most = _MOST / _MICROUSD if limit.resource == "cost_usd" else _MOST
    if not 0 < amount <= most:
        raise BadConfiguration(f"{place} must be more than 0, and at most {most:,.0f}; {amount:g} is not.")
    if limit.resource == "cost_usd":
        if amount * _MICROUSD < 1:
            raise BadConfiguration(f"{place} must be a millionth of a dollar or more; {amount:g} is less.")
    elif amount % 1:
        raise BadConfiguration(f"{place} must be a whole number of {limit.resource}; {amount:g} is none.")


def _warnings(
    limit: Limit, models: Mapping[str, ModelConfig], prices: Mapping[tuple[str, str], list[Price]], known: Known
) -> Iterator[str]:
    team, key, model = (limit.scope.get(dimension, "each") for dimension in ("team", "key", "model"))
    if team != "each" and team not in known.teams:
        yield f".scope.team: there is no team {team!r} yet, so it limits nobody."
    if key != "each" and key not in known.keys:
        yield f".scope.key: there is no key {key} yet, so it limits nobody."
    concerned = models if model == "each" else {model: models[model]}
    if limit.resource == "cost_usd":
        unpriced = [name for name, each in concerned.items() if any((to.provider, to.model) not in prices for to in each.targets)]
        if unpriced:
            yield f": requests for {_some(unpriced)} will be refused, for want of a price of every target."
    too_long = [name for name, each in concerned.items() if _need(limit, each, prices, known) > limit.amount]
    if too_long:
        whose = "its" if len(too_long) == 1 else "their"
        yield (
            f".amount {limit.amount:g} is less than one request for {_some(too_long)} reserves, unless its caller bounds the answer:"
            f" see {whose} `output_tokens`."
        )


def _need(limit: Limit, model: ModelConfig, prices: Mapping[tuple[str, str], list[Price]], known: Known) -> float:
    """What is reserved of the resource for an answer whose length the caller does not bound."""
    output_tokens = model.output_tokens or known.output_tokens or 0
    match limit.resource:
        case "output_tokens" | "tokens":
            return output_tokens
        case "cost_usd":
            dearest = max((price.output for to in model.targets for price in prices.get((to.provider, to.model), ())), default=0.0)
            return output_tokens * dearest / _MICROUSD
        case _:
            return 0


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:_NAMED_AT_MOST]
    rest = len(names) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
