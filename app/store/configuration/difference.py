"""The difference between two states of the configuration: as text for people, and as a list of changed entries."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from app.domain.callers import TeamConfig
from app.domain.snapshot import Snapshot
from app.store.configuration.config_file import write_file
from app.store.configuration.rows import State, by_name, by_price_key

T = TypeVar("T")
K = TypeVar("K")

SECTIONS = ("teams", "providers", "models", "limits", "prices", "functions", "metrics")

_IDENTIFYING_LINES = ("name = ", "provider = ", "model = ", "since = ")


class EntryChange(Struct, frozen=True, gc=False):
    """A changed entry of a section. `before` None: it is new; `after` None: it is gone.

    `name` of a price: a JSON list of provider, model and since (empty: always).
    """

    section: str
    name: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


def entry_of_price(key: tuple[str, str, str]) -> str:
    """The name of a price in EntryChange, from its price_key()."""
    return msgspec.json.encode(key).decode()


def price_key_of(entry: str) -> tuple[str, str, str]:
    return msgspec.json.decode(entry, type=tuple[str, str, str])


def display_name(change: EntryChange) -> str:
    """The name as people write it."""
    if change.section != "prices":
        return change.name
    provider, model, since = price_key_of(change.name)
    return f"{provider}/{model}{f' since {since}' if since else ''}"


def find_changes(old: State, new: State) -> Iterator[EntryChange]:
    """The entries that differ, section by section; the order of limits is no entry."""
    for section in SECTIONS:
        before, after = _entries(section, old), _entries(section, new)
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                name = entry_of_price(key) if section == "prices" else key
                yield EntryChange(section, name, to_entry(before.get(key)), to_entry(after.get(key)))


def to_entry(config: Struct | None) -> dict[str, Any] | None:
    """An entry as EntryChange has it. Of a team it is complete: Struct encoding omits some defaults, not those read from Postgres."""
    return msgspec.to_builtins(msgspec.structs.asdict(config) if isinstance(config, TeamConfig) else config)


def _entries(section: str, state: State) -> Mapping[Any, Any]:
    match section:
        case "teams":
            return state.teams
        case "limits":
            return by_name(state.snapshot.limits)
        case "prices":
            return by_price_key(state.snapshot.prices)
        case _:
            return getattr(state.snapshot, section)


def format_difference(current_state: State, wanted: State) -> str:
    """A unified diff, table by table: each hunk shows a complete table. Only entries that change are written as text."""
    old, new = (
        {_heading(table): table for table in write_file(each.snapshot, each.teams).split("\n\n")}
        for each in _changed_entries(current_state, wanted)
    )
    lines = ["--- now", "+++ then"]
    for heading in dict.fromkeys([*old, *new]):
        before, after = (tables.get(heading, "").splitlines() for tables in (old, new))
        if before != after:
            lines += ["", *list(difflib.unified_diff(before, after, lineterm="", n=len(before)))[3:]]
    return "\n".join(lines) if len(lines) > 2 else "Only the order of limits changes."


def _changed_entries(current_state: State, wanted: State) -> tuple[State, State]:
    """Both states without the entries that are the same in both."""
    old, new = current_state.snapshot, wanted.snapshot
    teams = _differing(current_state.teams, wanted.teams)
    providers = _differing(old.providers, new.providers)
    models = _differing(old.models, new.models)
    limits = _differing(by_name(old.limits), by_name(new.limits))
    prices = _differing(by_price_key(old.prices), by_price_key(new.prices))
    functions = _differing(old.functions, new.functions)
    metrics = _differing(old.metrics, new.metrics)
    before, after = (
        State(
            Snapshot(
                0,
                "",
                providers[at],
                models[at],
                tuple(limits[at].values()),
                tuple(prices[at].values()),
                functions=functions[at],
                metrics=metrics[at],
            ),
            teams[at],
        )
        for at in (0, 1)
    )
    return before, after


def _differing(old: Mapping[K, T], new: Mapping[K, T]) -> tuple[dict[K, T], dict[K, T]]:
    return (
        {key: value for key, value in old.items() if key not in new or new[key] != value},
        {key: value for key, value in new.items() if key not in old or old[key] != value},
    )


def _heading(table: str) -> tuple[str, ...]:
    """Returns what identifies a table: its heading, and for a table of a list its names."""
    lines = table.splitlines()
    return (*lines[:1], *(line for line in lines if line.startswith(_IDENTIFYING_LINES) and table.startswith("[[")))
