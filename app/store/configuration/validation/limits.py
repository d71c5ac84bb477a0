"""Validation of limits: invalid ones, contradictions between them, and warnings about probable mistakes."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import islice

from msgspec import Struct

from app.domain.errors import BadConfiguration
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig
from app.domain.snapshot import Snapshot
from app.process.plain_numbers import plain_number, plain_usd
from app.store.configuration.validation.known_names import KnownNames
from app.store.configuration.validation.limit_demand import Demand
from app.store.configuration.validation.paths import limit_path
from app.store.configuration.validation.shadows import shadows_of
from app.store.postgres.calendar_periods import CALENDAR_UNITS
from app.store.postgres.names import is_name
from app.store.postgres.time_zones import UnknownTimeZone, find_time_zone

_KEY = re.compile(r"nx-[0-9a-f]{12}")
# Tokens and millionths of a dollar stay integers in Redis's doubles.
_MAX_AMOUNT = 2**53
_MICROUSD = 1_000_000
_MAX_NAMES_SHOWN = 3


def validate(wanted: Snapshot) -> None:
    """Raises BadConfiguration for the first rule that is invalid, or that contradicts another."""
    limits_by_target: dict[object, Limit] = {}
    names: set[str] = set()
    for limit in wanted.limits:
        if limit.name in names:
            raise BadConfiguration(f"{limit_path(limit.name)} appears twice.")
        names.add(limit.name)
        _check_scope(limit, wanted.models, wanted.functions)
        check_period(limit)
        check_amount(limit)
        if not limit.dry_run:
            other = limits_by_target.setdefault(counted_subject(limit), limit)
            if other.amount != limit.amount:
                raise BadConfiguration(
                    f"{limit_path(limit.name)} contradicts {limit_path(other.name)}: for the same scope, resource and period, "
                    f"one allows {_amount_text(limit)} and the other {_amount_text(other)}. Remove one, or make it a `dry_run`."
                )


class Mistake(Struct, frozen=True):
    """A probable mistake."""

    about: str  # its place, and what is wrong there
    text: str  # all as a sentence
    models: Collection[str] = ()  # those for which it is wrong


def find_warnings(wanted: Snapshot, known_names: KnownNames, today: date | None = None) -> list[str]:
    """Probable mistakes, a sentence each, with their place. `today` is in UTC; None means the clock's. Later prices do not count yet."""
    return [each.text for each in find_mistakes(wanted, known_names, today)]


def find_mistakes(wanted: Snapshot, known_names: KnownNames, today: date | None = None) -> list[Mistake]:
    """Returns the mistakes that find_warnings() describes, for comparisons."""
    demand = Demand(wanted, _prices_on(wanted, today), known_names.output_tokens)
    return [*_mistakes_of_limits(wanted.limits, demand, known_names), *_shadow_mistakes(wanted, demand)]


def find_warnings_about(limits: Sequence[Limit], wanted: Snapshot, known_names: KnownNames, may_use: Callable[[str], bool]) -> list[str]:
    """Returns what find_warnings() says of some of the limits.

    It is for whoever may know only models that `may_use` permits; no limit may name another.
    """
    demand = Demand(wanted, _prices_on(wanted, None), known_names.output_tokens, may_use)
    return [each.text for each in _mistakes_of_limits(limits, demand, known_names)]


def _prices_on(wanted: Snapshot, today: date | None) -> Mapping[tuple[str, str], Sequence[Price]]:
    day = (today or datetime.now(UTC).date()).isoformat()
    prices: dict[tuple[str, str], list[Price]] = {}
    for price in wanted.prices:
        if price.since is None or price.since <= day:
            prices.setdefault((price.provider, price.model), []).append(price)
    return prices


def _mistakes_of_limits(limits: Sequence[Limit], demand: Demand, known_names: KnownNames) -> list[Mistake]:
    limits_by_effect: dict[object, Limit] = {}
    mistakes: list[Mistake] = []
    for limit in limits:
        path = limit_path(limit.name)
        mistakes += _limit_mistakes(path, limit, demand, known_names)
        other = limits_by_effect.setdefault((counted_subject(limit), limit.amount, limit.dry_run), limit)
        if other is not limit:
            text = f"{path} does the same as {limit_path(other.name)}: one of them is enough."
            mistakes.append(Mistake(text, text))
    return mistakes


def counted_subject(limit: Limit) -> object:
    """Returns what a rule counts: two rules that are equal in this count the same."""
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


def check_period(limit: Limit, path: str | None = None) -> None:
    """Raises BadConfiguration for a period that does not suit the resource.

    `path` is where the limit is; None means among the limits of a file.
    """
    path = path or limit_path(limit.name)
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


def check_amount(limit: Limit, path: str | None = None) -> None:
    path, amount = f"{path or limit_path(limit.name)}.amount", limit.amount
    max_amount = _MAX_AMOUNT / _MICROUSD if limit.resource == "cost_usd" else _MAX_AMOUNT
    if not 0 < amount <= max_amount:
        raise BadConfiguration(f"{path} must be more than 0 and at most {max_amount:,.0f}, not {plain_number(amount)}.")
    if limit.resource == "cost_usd":
        if amount * _MICROUSD < 1:
            raise BadConfiguration(f"{path} must be at least a millionth of a dollar, not {_amount_text(limit)}.")
    elif amount % 1:
        raise BadConfiguration(f"{path} must be a whole number of {limit.resource}, not {plain_number(amount)}.")


def _amount_text(limit: Limit) -> str:
    return plain_usd(limit.amount) if limit.resource == "cost_usd" else plain_number(limit.amount)


def _limit_mistakes(path: str, limit: Limit, demand: Demand, known_names: KnownNames) -> Iterator[Mistake]:
    team, key = (limit.scope.get(dimension, "each") for dimension in ("team", "key"))
    if team != "each" and team not in known_names.teams:
        text = f"{path}.scope.team: there is no team {team!r} yet, so it limits nobody."
        yield Mistake(text, text)
    if key != "each" and key not in known_names.keys:
        text = f"{path}.scope.key: there is no key {key} yet, so it limits nobody."
        yield Mistake(text, text)
    is_about_functions = "function" in limit.scope
    if limit.resource == "cost_usd" and (unpriced := demand.without_price(limit)):
        where = "where a variant's model has a target without a price" if is_about_functions else "as not every target has a price"
        becomes = "would be refused without its dry_run" if limit.dry_run else "will be refused"
        text = f"{path}: requests for {_join_names(unpriced)} {becomes}{'' if is_about_functions else ','} {where}."
        yield Mistake(f"{path} without a price", text, unpriced)
    if exceeding := demand.above(limit):
        whose = "its variants' models'" if is_about_functions else "its" if len(exceeding) == 1 else "their"
        what = f"{path}.amount {_amount_text(limit)} is less than a request"
        text = f"{what} for {_join_names(exceeding)} reserves, unless its caller bounds the response: see {whose} `output_tokens`."
        yield Mistake(what, text, exceeding)


def _shadow_mistakes(wanted: Snapshot, demand: Demand) -> Iterator[Mistake]:
    for path, name, shadow in shadows_of(wanted):
        model = shadow.to if path.startswith("models.") else wanted.functions[name].variants[shadow.to].model
        amount, reserved = shadow.usd_per_day, demand.of_targets(model)
        if amount is None:
            continue
        if reserved.is_unpriced:
            text = f"{path}.usd_per_day: nothing will be answered again (`no_price`), as not every target of {model!r} has a price."
            yield Mistake(text, text)
        elif reserved.cost_usd > amount:
            less = f"{path}.usd_per_day {plain_number(amount)} is less than one request for {model!r} reserves"
            what = f"{less}, so nothing will be answered again"
            text = f"{what} (`budget`), unless its caller bounds the response: see its `output_tokens`."
            yield Mistake(text, text)


def _join_names(names: Collection[str]) -> str:
    """Joins names, which are in order, for a message."""
    hidden = len(names) - _MAX_NAMES_SHOWN
    return ", ".join(islice(names, _MAX_NAMES_SHOWN)) + (f" and {hidden} more" if hidden > 0 else "")
