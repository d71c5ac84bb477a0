"""Earlier configurations: the one in force, without what was changed since.

The history has what each version changed. So of an entry the first change after a version says what it was then, and an entry without
one is as it is now.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.errors import UnknownVersion
from app.process.thread_steps import in_steps, run_in_steps
from app.store.configuration import snapshots
from app.store.configuration.difference import entry_of_price, price_key_of
from app.store.configuration.history import without_position
from app.store.postgres import tables

_versions = tables.configuration_versions

_NAMED_SECTIONS = ("functions", "metrics", "models", "providers")
_ALWAYS_THERE = ("models", "providers")


def _earlier(version: str) -> str:
    """Tables of what is different from `version`: `contents`, null for what did not exist, and `positions` of limits.

    A limit whose position alone changed has no content in that change, so a later one may say what it was.
    """
    return f"""
        contents AS (
            SELECT DISTINCT ON (section, name) section, name, before FROM configuration_changes
            WHERE version > {version} AND (section <> 'limits' OR before IS NULL OR before -> 'config' IS NOT NULL)
            ORDER BY section, name, version
        ),
        positions AS (
            SELECT DISTINCT ON (name) name, (before ->> 'position')::int AS position FROM configuration_changes
            WHERE version > {version} AND section = 'limits' AND before IS NOT NULL ORDER BY name, version
        )
    """  # noqa: S608


_CONTENTS = text(f"WITH {_earlier(':version')} SELECT section, name, before FROM contents")  # noqa: S608
_POSITIONS = text(f"WITH {_earlier(':version')} SELECT name, position FROM positions")  # noqa: S608

# As text with a line for each entry, which costs the event loop a tenth of what rows do. All of it in one statement: what expires meanwhile
# is either in all of it, or the whole snapshot is gone.
_CURRENT = " UNION ALL ".join(
    [
        *(f"SELECT '{name}' AS section, name, config, NULL::int AS position FROM {name}" for name in _NAMED_SECTIONS),  # noqa: S608
        "SELECT 'limits', name, config, position FROM limits",
        "SELECT 'prices', NULL, config, NULL::int FROM prices",
    ]
)
_DOCUMENT = text(f"""
    WITH wanted AS (SELECT version FROM snapshots WHERE hash = :hash AND version IS NOT NULL), {_earlier("(SELECT version FROM wanted)")}
    SELECT
        (SELECT string_agg(jsonb_build_array(section, name, config, position)::text, E'\\n') FROM ({_CURRENT}) AS current) AS current,
        (SELECT string_agg(jsonb_build_array(section, name, before)::text, E'\\n') FROM contents WHERE section <> 'teams') AS contents,
        (SELECT string_agg(jsonb_build_array(name, position)::text, E'\\n') FROM positions) AS positions
    FROM wanted
""")  # noqa: S608

_FUNCTION = text("""
    SELECT CASE WHEN version IS NULL THEN document #> ARRAY['functions', CAST(:name AS text)] ELSE (
        SELECT config FROM (
            SELECT before AS config, version FROM configuration_changes
            WHERE section = 'functions' AND name = :name AND version > snapshots.version
            UNION ALL SELECT config, 9223372036854775807 FROM functions WHERE name = :name
        ) AS states ORDER BY version LIMIT 1
    ) END FROM snapshots WHERE hash = :hash
""")


class EarlierEntries(Struct, frozen=True):
    """The entries that changed since a version, as they were then.

    They are by section and name, None for what did not exist. `positions` are those of limits.
    """

    entries: Mapping[tuple[str, str], dict[str, Any] | None]
    positions: Mapping[str, int]


async def read_entries_at(connection: AsyncConnection, version: int) -> EarlierEntries:
    """Raises UnknownVersion for one in the future, from before the history was kept, or that has expired."""
    contents = await connection.execute(_CONTENTS, {"version": version})
    entries = {(section, name): without_position(section, before) for section, name, before in contents}
    positions = {name: position for name, position in await connection.execute(_POSITIONS, {"version": version})}
    # After all of it was read: versions may expire meanwhile.
    first = await connection.scalar(select(func.min(_versions.c.version)))
    current = await snapshots.read_version(connection)
    earliest = current if first is None else first - 1
    if not earliest <= version <= current:
        raise UnknownVersion(f"The configuration of version {version} is not known. The history has versions {earliest} to {current}.")
    return EarlierEntries(entries, positions)


async def read_document(connection: AsyncConnection, hash: str) -> dict[str, Any] | None:
    """The configuration with this hash, as it was hashed. None: the history does not have it."""
    row = (await connection.execute(_DOCUMENT, {"hash": hash})).one_or_none()
    return None if row is None else await run_in_steps(lambda: _build_document(row.current, row.contents, row.positions))


async def read_function_config(connection: AsyncConnection, hash: str, name: str) -> dict[str, Any] | None:
    """A function in the configuration with this hash; None: it is not there, or the configuration is not known."""
    return await connection.scalar(_FUNCTION, {"hash": hash, "name": name})


def _build_document(current: str | None, contents: str | None, positions: str | None) -> dict[str, Any]:
    """Builds the document in steps. An entry without a name is a price, whose content says which one."""
    sections: dict[str, dict[str, Any]] = {name: {} for name in (*_NAMED_SECTIONS, "limits", "prices")}
    order: dict[str, int] = {}
    for section, name, config, position in _decode(current):
        sections[section][_price_name(config) if section == "prices" else name] = config
        if position is not None:
            order[name] = position
    for section, name, before in _decode(contents):
        key = entry_of_price(price_key_of(name)) if section == "prices" else name
        if before is None:
            sections[section].pop(key, None)
        else:
            sections[section][key] = without_position(section, before)
    order.update(_decode(positions))
    limits, prices = sections["limits"], sections["prices"]
    document: dict[str, Any] = {name: sections[name] for name in _NAMED_SECTIONS}
    document["limits"] = [limits[name] for name in sorted(limits, key=lambda name: (order[name], name))]
    document["prices"] = [prices[name] for name in sorted(prices, key=price_key_of)]
    return {name: document[name] for name in sorted(document) if document[name] or name in _ALWAYS_THERE}


def _price_name(price: Mapping[str, Any]) -> str:
    return entry_of_price((price["provider"], price["model"], price.get("since") or ""))


def _decode(lines: str | None) -> Iterator[Any]:
    split: Iterable[str] = lines.split("\n") if lines else ()
    return (msgspec.json.decode(line) for line in in_steps(split))
