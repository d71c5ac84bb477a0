"""Validation of limits: invalid ones, contradictions between them, and warnings about probable mistakes."""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, date, datetime
from itertools import islice

from msgspec import Struct

from app.domain import Limit, ModelConfig, Price, Snapshot
from app.serving_models import serving_models
from app.store.calendar_periods import CALENDAR_UNITS
from app.store.config_file import limit_path
from app.store.errors import BadConfiguration
from app.store.time_zones import UnknownTimeZone, find_time_zone

_KEY = re.compile(r"nx-[0-9a-f]{12}")
# Tokens and millionths of a dollar stay integers in Redis's doubles.
_MAX_AMOUNT = 2**53
_MICROUSD = 1_000_000
_MAX_NAMES_SHOWN = 3


class KnownNames(Struct, frozen=True):
    """Names that are not in the snapshot. `output_tokens`: the setting for models without one of their own; None: unknown here."""

    teams: Collection[str] = ()
    keys: Collection[str] = ()
    output_tokens: int | None = None


def validate(wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first rule that is invalid, or that contradicts another."""
    limits_by_target: dict[object, Limit] = {}
    names: set[str] = set()
    for limit in wanted.limits:
        if limit.name in names:
            raise BadConfiguration(f"{limit_path(limit.name)} appears twice.")
        names.add(limit.name)
        _check_scope(limit, wanted.models, wanted.functions)
        _check_period(limit)
        check_amount(limit)
        if not limit.dry_run:
            other = limits_by_target.setdefault(counted_subject(limit), limit)
            if other.amount != limit.amount:
                raise BadConfiguration(
                    f"{limit_path(limit.name)} contradicts {limit_path(other.name)}: for the same scope, resource and period, "
                    f"one allows {limit.amount:g} and the other {other.amount:g}. Remove one, or make it a `dry_run`."
                )


class Mistake(Struct, frozen=True):
    """A probable mistake. `about`: its place, and what is wrong there; `models`: for which it is wrong; `text`: all as a sentence."""

    about: str
    text: str
    models: Collection[str] = ()


def find_warnings(wanted: Snapshot, known_names: KnownNames, today: date | None = None) -> list[str]:
    """Probable mistakes, a sentence each, with their place. `today`: in UTC; None: the clock's. Later prices do not count yet."""
    return [each.text for each in find_mistakes(wanted, known_names, today)]


def find_mistakes(wanted: Snapshot, known_names: KnownNames, today: date | None = None) -> list[Mistake]:
    """As find_warnings(), for comparisons."""
    day = (today or datetime.now(UTC).date()).isoformat()
    prices: dict[tuple[str, str], list[Price]] = {}
    for price in wanted.prices:
        if price.since is not None and price.since > day:
            continue
        prices.setdefault((price.provider, price.model), []).append(price)
    limits_by_effect: dict[object, Limit] = {}
    mistakes: list[Mistake] = []
    demand = _Demand(wanted.models, prices, known_names)
    for limit in wanted.limits:
        path = limit_path(limit.name)
        mistakes += _limit_mistakes(path, limit, demand, known_names)
        other = limits_by_effect.setdefault((counted_subject(limit), limit.amount, limit.dry_run), limit)
        if other is not limit:
            text = f"{path} does the same as {limit_path(other.name)}: one of them is enough."
            mistakes.append(Mistake(text, text))
    return mistakes


def counted_subject(limit: Limit) -> object:
    """What a rule counts: two rules that are equal in this count the same."""
    zone = limit.time_zone if limit.per in CALENDAR_UNITS else None
    return frozenset(limit.scope.items()), limit.resource, limit.per, zone


def _check_scope(limit: Limit, models: Mapping[str, ModelConfig], functions: Collection[str]) -> None:
    path = f"{limit_path(limit.name)}.scope"
    if not limit.scope:
        raise BadConfiguration(f'{path} is empty. For everything together, use {{ all = "each" }}.')
    for dimension, subject in limit.scope.items():
        if dimension == "tag" or (dimension.startswith("tag:") and not is_name(dimension[4:])):
            raise BadConfiguration(f'{path}: {dimension!r} names no tag. Name one, such as "tag:tenant".')
        if dimension not in ("key", "team", "model", "function", "all") and not dimension.startswith("tag:"):
            raise BadConfiguration(f"{path}: there is no dimension {dimension!r}. There are: key, team, model, function, tag:NAME, all.")
        if not is_name(subject):
            raise BadConfiguration(f'{path}.{dimension} must be "each" or one name, not {subject!r}.')
        if dimension == "key" and subject != "each" and not _KEY.fullmatch(subject):
            raise BadConfiguration(
                f'{path}.key must be "each" or a key\'s public part, nx- and 12 hex digits (`narthex keys list` shows it).'
            )
        if dimension == "model" and subject != "each" and subject not in models:
            model_names = ", ".join(sorted(models)) or "none yet"
            hint = f' It is a function: {{ function = "{subject}" }}.' if subject in functions else f" There are: {model_names}."
            raise BadConfiguration(f"{path}.model: there is no model {subject!r}.{hint}")
        if dimension == "function" and subject != "each" and subject not in functions:
            function_names = ", ".join(sorted(functions)) or "none yet"
            raise BadConfiguration(f"{path}.function: there is no function {subject!r}. There are: {function_names}.")
    if "all" in limit.scope and (len(limit.scope) > 1 or limit.scope["all"] != "each"):
        raise BadConfiguration(f'{path}: `all` means everything together, and must stand alone: {{ all = "each" }}.')


def is_name(text: str) -> bool:
    return bool(text) and text == text.strip() and text.isprintable()


def _check_period(limit: Limit) -> None:
    path = limit_path(limit.name)
    if limit.resource == "concurrency" and limit.per is not None:
        raise BadConfiguration(f"{path}.per: concurrency counts requests in progress, and has no period.")
    if limit.resource == "concurrency" and limit.after_loss != "rebuild":
        raise BadConfiguration(
            f"{path.removesuffix('.per')}.after_loss: requests in progress take their places again when Redis has lost its memory, "
            'so a rule about concurrency has no other way than "rebuild".'
        )
    if limit.resource != "concurrency" and limit.per is None:
        raise BadConfiguration(f"{path}.per is required: second, minute, hour, day, week or month.")
    if limit.time_zone != "UTC" and limit.per not in CALENDAR_UNITS:
        raise BadConfiguration(f"{path}.time_zone is for days, weeks and months; a {limit.per or 'moment'} is the same everywhere.")
    try:
        find_time_zone(limit.time_zone)
    except UnknownTimeZone as fault:
        raise BadConfiguration(f"{path}.time_zone: {fault}") from None


def check_amount(limit: Limit) -> None:
    path, amount = f"{limit_path(limit.name)}.amount", limit.amount
    max_amount = _MAX_AMOUNT / _MICROUSD if limit.resource == "cost_usd" else _MAX_AMOUNT
    if not 0 < amount <= max_amount:
        raise BadConfiguration(f"{path} must be more than 0 and at most {max_amount:,.0f}, not {amount:g}.")
    if limit.resource == "cost_usd":
        if amount * _MICROUSD < 1:
            raise BadConfiguration(f"{path} must be at least a millionth of a dollar, not {amount:g}.")
    elif amount % 1:
        raise BadConfiguration(f"{path} must be a whole number of {limit.resource}, not {amount:g}.")


def _limit_mistakes(path: str, limit: Limit, demand: "_Demand", known_names: KnownNames) -> Iterator[Mistake]:
    team, key, model = (limit.scope.get(dimension, "each") for dimension in ("team", "key", "model"))
    if team != "each" and team not in known_names.teams:
        text = f"{path}.scope.team: there is no team {team!r} yet, so it limits nobody."
        yield Mistake(text, text)
    if key != "each" and key not in known_names.keys:
        text = f"{path}.scope.key: there is no key {key} yet, so it limits nobody."
        yield Mistake(text, text)
    if "function" in limit.scope:  # whose requests reserve what its variants' models do, and what its templates add
        return
    if limit.resource == "cost_usd":
        unpriced = demand.models_without_price(model)
        if unpriced:
            text = f"{path}: requests for {_join_names(unpriced)} will be refused, as not every target has a price."
            yield Mistake(f"{path} without a price", text, unpriced)
    exceeding = demand.models_above(limit, model)
    if exceeding:
        whose = "its" if len(exceeding) == 1 else "their"
        what = f"{path}.amount {limit.amount:g} is less than a request"
        text = f"{what} for {_join_names(exceeding)} reserves, unless its caller bounds the response: see {whose} `output_tokens`."
        yield Mistake(what, text, exceeding)


class _Demand:
    """What requests reserve whose caller does not bound the response. Found once for each model: there may be many rules for all models.

    Its methods take a model's name, or "each" for all, and return names in order.
    """

    def __init__(self, models: Mapping[str, ModelConfig], prices: Mapping[tuple[str, str], list[Price]], known_names: KnownNames) -> None:
        served_by = {name: list(serving_models(models, name)) for name in models}
        is_unpriced = {name: any((each.provider, each.model) not in prices for each in model.targets) for name, model in models.items()}
        own_tokens = {name: float(model.output_tokens or known_names.output_tokens or 0) for name, model in models.items()}
        own_cost = {name: own_tokens[name] * _highest_output_usd(model, prices) / _MICROUSD for name, model in models.items()}
        self._unpriced = {name: None for name in sorted(models) if any(is_unpriced[each] for each in served_by[name])}
        # A model with an experiment reserves what the arm's model does.
        tokens = {name: max((own_tokens[each] for each in served_by[name]), default=0.0) for name in models}
        cost = {name: max((own_cost[each] for each in served_by[name]), default=0.0) for name in models}
        self._by_resource = {"output_tokens": tokens, "tokens": tokens, "cost_usd": cost}
        self._descending = {resource: sorted(each, key=lambda name: -each[name]) for resource, each in self._by_resource.items()}
        self._highest: dict[tuple[str, int], Collection[str]] = {}

    def models_without_price(self, model: str) -> Collection[str]:
        """Those with a target that has no price."""
        return self._unpriced if model == "each" else [model] if model in self._unpriced else ()

    def models_above(self, limit: Limit, model: str) -> Collection[str]:
        """Those of which one such request reserves more of the rule's resource than it allows."""
        amounts = self._by_resource.get(limit.resource)
        if amounts is None:
            return ()
        if model != "each":
            return [model] if amounts[model] > limit.amount else ()
        descending = self._descending[limit.resource]
        count = bisect_left(descending, -limit.amount, key=lambda name: -amounts[name])
        if (limit.resource, count) not in self._highest:
            self._highest[limit.resource, count] = sorted(descending[:count])
        return self._highest[limit.resource, count]


def _highest_output_usd(model: ModelConfig, prices: Mapping[tuple[str, str], list[Price]]) -> float:
    return max((_output_usd(price) for each in model.targets for price in prices.get((each.provider, each.model), ())), default=0.0)


def _output_usd(price: Price) -> float:
    """What is reserved for a million output tokens, in US dollars."""
    gpu = price.gpu
    if gpu is None:
        return price.output or 0.0
    return gpu.usd_per_hour * gpu.gpus / gpu.concurrency / 3600 / gpu.tokens_per_s * 1_000_000


def _join_names(names: Collection[str]) -> str:
    """`names`: in order."""
    hidden = len(names) - _MAX_NAMES_SHOWN
    return ", ".join(islice(names, _MAX_NAMES_SHOWN)) + (f" and {hidden} more" if hidden > 0 else "")
