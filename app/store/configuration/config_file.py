"""The configuration file: parses TOML into its sections, and writes them."""

import datetime
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

import msgspec
import tomli_w
from msgspec import Meta, Struct

from app.domain.callers import TeamConfig
from app.domain.errors import BadConfiguration
from app.domain.experiments import MetricConfig
from app.domain.functions import FunctionConfig
from app.domain.limits import Limit
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig
from app.domain.snapshot import Snapshot
from app.process.decoding_errors import choices_at, field_names_at, in_plain_words, name_keys
from app.process.thread_steps import in_steps
from app.store.configuration.validation.paths import limit_path, price_key

T = TypeVar("T")

# The JSON Schema of files, beside them, as `narthex schema` prints it: editors look for it where the first line names it.
SCHEMA_FILE = "narthex.schema.json"

# tomllib's time and memory grow with the square of the parts of a dotted key, of which a line has no more than dots: 2 s and 200 MB.
_MAX_SQUARED_DOTS = 50_000_000


class _RawSections(Struct, forbid_unknown_fields=True):
    """A file's sections before their content is checked."""

    teams: dict[str, Any] | None = None
    providers: dict[str, Any] | None = None
    models: dict[str, Any] | None = None
    limits: list[Any] | None = None
    prices: list[Any] | None = None
    functions: dict[str, Any] | None = None
    metrics: dict[str, Any] | None = None


class ConfigFile(Struct):
    """The sections of a file. None: the file does not have the section, so `apply` leaves it as it is."""

    providers: Annotated[dict[str, ProviderConfig] | None, Meta(description="Hosts and engines, by name.")] = None
    models: Annotated[dict[str, ModelConfig] | None, Meta(description="What callers may name, and what serves it.")] = None
    teams: Annotated[dict[str, TeamConfig] | None, Meta(description="Settings of teams, by name.")] = None
    limits: Annotated[tuple[Limit, ...] | None, Meta(description="What callers are held to.")] = None
    prices: Annotated[tuple[Price, ...] | None, Meta(description="What providers charge.")] = None
    functions: Annotated[dict[str, FunctionConfig] | None, Meta(description="Tasks that callers name instead of a model.")] = None
    metrics: Annotated[dict[str, MetricConfig] | None, Meta(description="Feedback that callers may send, by name.")] = None


def parse_toml(content: str) -> dict[str, Any]:
    """The tables of a text, within bounds. Raises BadConfiguration."""
    if sum(line.count(".") ** 2 for line in content.split("\n")) > _MAX_SQUARED_DOTS:
        raise BadConfiguration("The file has too many dots in one line, or in several long ones: write long lists one value a line.")
    try:
        return tomllib.loads(content)
    except RecursionError:
        raise BadConfiguration("The file is nested too deeply: nothing in it needs more than a few levels.") from None
    except ValueError as fault:  # also for a number of 5000 digits
        raise BadConfiguration(f"The file is not TOML: {fault}.") from None


def parse_config_file(content: str) -> ConfigFile:
    """Parse a file. Raises BadConfiguration for errors that show without the rest of the configuration."""
    document = parse_toml(content)
    for section in ("limits", "prices"):
        if isinstance(document.get(section), dict):
            empty_list_hint = f"`{section} = []`, before the first [section], is an empty list"
            raise BadConfiguration(f"`{section}` is a list: each entry begins with [[{section}]]; {empty_list_hint}.")
    raw = _convert(document, _RawSections, "")
    return ConfigFile(
        _convert_section("providers", raw.providers, ProviderConfig),
        _convert_section("models", raw.models, ModelConfig),
        _convert_section("teams", raw.teams, TeamConfig),
        None if raw.limits is None else tuple(_reject_duplicates("limits", _convert_limits(raw.limits), lambda limit: limit.name)),
        None if raw.prices is None else tuple(_reject_duplicates("prices", _convert_prices(raw.prices), price_key)),
        _convert_section("functions", raw.functions, FunctionConfig),
        _convert_section("metrics", raw.metrics, MetricConfig),
    )


def write_file(snapshot: Snapshot, teams: Mapping[str, TeamConfig]) -> str:
    """The TOML of a configuration. Empty sections are left out. In steps."""
    complete_teams = {name: {"content": team.content, **msgspec.to_builtins(team)} for name, team in teams.items()}
    sections = (
        ("teams", complete_teams),
        ("providers", snapshot.providers),
        ("models", snapshot.models),
        ("functions", snapshot.functions),
        ("metrics", snapshot.metrics),
    )
    entries = ((section, name, entry) for section, entries in sections for name, entry in entries.items())
    tables = (tomli_w.dumps({section: {name: msgspec.to_builtins(entry)}}) for section, name, entry in in_steps(entries))
    return "\n".join([*tables, *_format_tables("limits", snapshot.limits), *_format_tables("prices", snapshot.prices)])


def _convert_section(section: str, values: Mapping[str, Any] | None, kind: type[T]) -> dict[str, T] | None:
    return None if values is None else {name: _convert(value, kind, f"{section}.{name}") for name, value in values.items()}


def _convert_limits(values: Sequence[Any]) -> Iterator[tuple[str, Limit]]:
    for at, each in enumerate(values):
        table = _require_table(each, f"limits[{at}]")
        path = limit_path(table["name"]) if isinstance(table.get("name"), str) else f"limits[{at}]"
        if table.get("scope") == "all":
            table["scope"] = {"all": "each"}
        yield path, normalize_limit(_convert(table, Limit, path))


def normalize_limit(limit: Limit) -> Limit:
    """A limit as it is stored, whichever way its keys are written."""
    return msgspec.structs.replace(limit, scope={name: _normalize_subject(name, subject) for name, subject in limit.scope.items()})


def _normalize_subject(dimension: str, name: str) -> str:
    """The public part of a key with its `nx-`, which a file may leave out."""
    return f"nx-{name}" if dimension == "key" and name != "each" and not name.startswith("nx-") else name


def _convert_prices(values: Sequence[Any]) -> Iterator[tuple[str, Price]]:
    for at, each in enumerate(values):
        path = f"prices[{at}]"
        table = _require_table(each, path)
        since = table.get("since")
        if type(since) is datetime.date:  # TOML has a date type
            table["since"] = since.isoformat()
        price = _convert(table, Price, path)
        yield path, msgspec.structs.replace(price, since=price.since and _normalize_day(price.since))


def _normalize_day(text: str) -> str:
    """A date in the form that sorts; other text is left for the validation."""
    try:
        return datetime.date.fromisoformat(text).isoformat()
    except ValueError:
        return text


def _require_table(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadConfiguration(f"Expected a table at `{path}`.")
    return dict(cast("dict[str, Any]", value))


def _reject_duplicates(section: str, items: Iterator[tuple[str, T]], key: Callable[[T], object]) -> Iterator[T]:
    """Raises BadConfiguration for two entries with one name, of which the second would silently replace the first."""
    positions: dict[object, int] = {}
    for at, (path, each) in enumerate(items):
        if key(each) in positions:
            raise BadConfiguration(f"{path} appears twice: {section}[{positions[key(each)]}] and {section}[{at}] of the file.")
        positions[key(each)] = at
        yield each


def _convert(value: Any, kind: type[T], section_path: str) -> T:
    """Convert one entry, so that the message can name it: msgspec's error does not."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `$")
        full_path = (section_path + name_keys(value, kind, fault)).removeprefix(".")
        field = path.rstrip("`").removeprefix(".")
        words = in_plain_words(problem)
        message = f"{words} at `{full_path}`." if full_path else f"{words}."
        raise BadConfiguration(message + _hint(problem, kind, field)) from None


def _hint(problem: str, kind: type[Any], field: str) -> str:
    """How to fix the error, which msgspec's message does not say."""
    if field.partition("[")[0] == "drop":
        return ' It is "all", or a list of names of fields, such as ["logit_bias"].'
    if problem.startswith("Invalid enum value"):
        return f" It may be {', '.join(choices_at(kind, f'$.{field}'))}."
    if "unknown field" in problem:
        return f" The fields are: {', '.join(field_names_at(kind, f'$.{field}'))}."
    if kind is Limit and field == "scope":
        return ' It is a table, such as { key = "each" } or { team = "legal" }.'
    return ""


def _format_tables(section: str, records: Sequence[Struct]) -> Iterator[str]:
    """Each record as a [[section]] table with inline tables: tomli_w would write the list in brackets."""
    for record in in_steps(records):
        fields = msgspec.to_builtins(record)
        yield "".join([f"[[{section}]]\n", *(_format_line(name, value) for name, value in fields.items())])


def _format_line(name: str, value: Any) -> str:
    match value:
        case dict():
            return f"{name} = {_format_inline(cast('dict[str, Any]', value))}\n"
        case [dict(), *_]:
            return f"{name} = [{', '.join(_format_inline(each) for each in cast('list[dict[str, Any]]', value))}]\n"
        case float() if value.is_integer() and abs(value) < 2**53:
            return f"{name} = {int(value)}\n"
        case _:
            return tomli_w.dumps({name: value})


def _format_inline(table: Mapping[str, Any]) -> str:
    return f"{{ {', '.join(_format_line(key, each).rstrip() for key, each in table.items())} }}"
