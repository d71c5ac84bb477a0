"""The configuration file: TOML to the meaning of its sections, and back."""

import datetime
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import tomli_w
from msgspec import Struct

from app.domain import Directory, Limit, ModelConfig, Price, ProviderConfig, TeamConfig
from app.store.directory import price_key

T = TypeVar("T")


class BadConfiguration(ValueError):
    """A file that cannot be applied; the message says where, what is wrong and what would be right."""


class _Said(Struct, forbid_unknown_fields=True):
    """A file's sections, their content not looked at yet."""

    teams: dict[str, Any] | None = None
    providers: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    limits: list[Any] | None = None
    prices: list[Any] | None = None


class File(Struct):
    """The sections of a file. None: the file does not have the section, so nothing in it is touched."""

    providers: dict[str, ProviderConfig] | None = None
    models: dict[str, ModelConfig] | None = None
    teams: dict[str, TeamConfig] | None = None
    limits: tuple[Limit, ...] | None = None
    prices: tuple[Price, ...] | None = None


def read_file(content: str) -> File:
    """Raises BadConfiguration for what is wrong with the file by itself."""
    try:
        told = tomllib.loads(content)
    except (ValueError, RecursionError) as fault:  # not only of TOML: a number of 5000 digits, a thousand lists in each other
        raise BadConfiguration(f"The file is not TOML: {fault}.") from None
    for section in ("limits", "prices"):
        if isinstance(told.get(section), dict):
            none = f"`{section} = []`, before the first [section], says that there are none"
            raise BadConfiguration(f"`{section}` is a list: each begins with [[{section}]]; {none}.")
    said = _convert(told, _Said, "")
    return File(
        _section("providers", said.providers, ProviderConfig),
        _section("models", said.models, ModelConfig),
        _section("teams", said.teams, TeamConfig),
        None if said.limits is None else tuple(_once("limits", _limits(said.limits), lambda limit: limit.name)),
        None if said.prices is None else tuple(_once("prices", _prices(said.prices), price_key)),
    )


def write_file(now: Directory, teams: Mapping[str, TeamConfig]) -> str:
    """The TOML that says what there is. A section without anything in it is left out."""
    told_teams = {name: {"content": team.content, **msgspec.to_builtins(team)} for name, team in teams.items()}
    sections = {"teams": told_teams, "providers": now.providers, "models": now.models}
    tables = tomli_w.dumps(msgspec.to_builtins({name: section for name, section in sections.items() if section}))
    return "\n".join(filter(None, [tables, *_listed("limits", now.limits), *_listed("prices", now.prices)]))


def limit_place(name: str) -> str:
    """How messages call a limit."""
    return f'limits["{name}"]'


def price_place(price: Price) -> str:
    """How messages call a price."""
    since = f', since "{price.since}"' if price.since else ""
    return f'prices["{price.provider}", "{price.model}"{since}]'


def _section(section: str, said: Mapping[str, Any] | None, kind: type[T]) -> dict[str, T] | None:
    return None if said is None else {name: _convert(value, kind, f"{section}.{name}") for name, value in said.items()}


def _limits(said: Sequence[Any]) -> Iterator[tuple[str, Limit]]:
    for at, each in enumerate(said):
        table = _table(each, f"limits[{at}]")
        place = limit_place(table["name"]) if isinstance(table.get("name"), str) else f"limits[{at}]"
        if table.get("scope") == "all":
            table["scope"] = {"all": "each"}
        limit = _convert(table, Limit, place)
        yield place, msgspec.structs.replace(limit, scope={dimension: _subject(dimension, of) for dimension, of in limit.scope.items()})


def _subject(dimension: str, of: str) -> str:
    """Keys are known by their public part with `nx-` before it, and may be written without."""
    return f"nx-{of}" if dimension == "key" and of != "each" and not of.startswith("nx-") else of


def _prices(said: Sequence[Any]) -> Iterator[tuple[str, Price]]:
    for at, each in enumerate(said):
        place = f"prices[{at}]"
        table = _table(each, place)
        since = table.get("since")
        if type(since) is datetime.date:  # TOML has dates of its own
            table["since"] = since.isoformat()
        price = _convert(table, Price, place)
        yield place, msgspec.structs.replace(price, since=price.since and _day(price.since))


def _day(said: str) -> str:
    """In the one form that sorts; what is no date is told of when all is checked."""
    try:
        return datetime.date.fromisoformat(said).isoformat()
    except ValueError:
        return said


def _table(said: Any, place: str) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise BadConfiguration(f"Expected a table at `{place}`.")
    return dict(cast("dict[str, Any]", said))


def _once(section: str, found: Iterator[tuple[str, T]], key: Callable[[T], object]) -> Iterator[T]:
    """Two of one name would be one in the end: the second may not take the first's place unseen."""
    met: dict[object, int] = {}
    for at, (place, each) in enumerate(found):
        if key(each) in met:
            raise BadConfiguration(f"{place} is there twice: {section}[{met[key(each)]}] and {section}[{at}] of the file.")
        met[key(each)] = at
        yield each


def _convert(said: Any, kind: type[T], place: str) -> T:
    """One at a time, because msgspec does not tell under which name a fault lies."""
    try:
        return msgspec.convert(said, kind)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `$")
        where = (place + path.rstrip("`")).removeprefix(".")
        field = path.rstrip("`").removeprefix(".")
        told = f"{what} at `{where}`." if where else f"{what}."
        raise BadConfiguration(told + _hint(what, kind, field)) from None


def _hint(what: str, kind: type[Any], field: str) -> str:
    """What msgspec does not tell: what would be right."""
    if what.startswith("Invalid enum value"):
        return f" It may be {', '.join(_allowed(kind, field))}."
    if "unknown field" in what and not field:
        return f" There are: {', '.join(get_type_hints(kind))}."
    if kind is Limit and field == "scope":
        return ' It is a table, such as { key = "each" } or { team = "legal" }.'
    return ""


def _allowed(kind: type[Any], field: str) -> Iterator[str]:
    """The words that a field may have, which msgspec does not tell."""
    hint = get_type_hints(kind)[field]
    for each in (hint, *get_args(hint)):
        if get_origin(each) is Literal:
            yield from get_args(each)


def _listed(section: str, records: Sequence[Struct]) -> Iterator[str]:
    """Each as a table of its own, tables in it on one line: tomli_w would put the whole list into brackets."""
    for record in records:
        fields = msgspec.to_builtins(record)
        yield "".join([f"[[{section}]]\n", *(_line(name, value) for name, value in fields.items())])


def _line(name: str, value: Any) -> str:
    match value:
        case dict():
            inside = ", ".join(_line(key, each).rstrip("\n") for key, each in cast("dict[str, Any]", value).items())
            return f"{name} = {{ {inside} }}\n"
        case float() if value.is_integer() and abs(value) < 2**53:
            return f"{name} = {int(value)}\n"
        case _:
            return tomli_w.dumps({name: value})
