"""Names in filters of records: one of which there is nothing, and never was, is said to be unknown, in place of an empty list."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Select, Table, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.domain.functions import FUNCTION_PREFIXES
from app.domain.routing import MODEL_PREFIXES
from app.store.postgres import tables
from app.store.postgres.conditions import AnyOf, values_of
from app.store.usage.counted_models import sent_names
from app.store.usage.rollups import OTHER, UNKNOWN

_changes, _groups, _keys, _teams = tables.configuration_changes.c, tables.rollup_groups.c, tables.keys.c, tables.teams.c
_PLACEHOLDERS = (UNKNOWN, OTHER)
# By filter: its section of a configuration, and where records have it.
_SECTIONS: Mapping[str, tuple[str, Table, ColumnElement[str]]] = {
    "model": ("models", tables.models, _groups.model),
    "function": ("functions", tables.functions, _groups.function),
    "provider": ("providers", tables.providers, _groups.provider),
}


class NamedFilters(Struct, frozen=True):
    """The filters that name something; None: there is none."""

    team: AnyOf | None = None
    team_id: str | None = None
    key: AnyOf | None = None  # the public part, with or without nx-
    model: AnyOf | None = None
    function: AnyOf | None = None
    provider: AnyOf | None = None


async def check_named(connection: AsyncConnection, filters: NamedFilters, only_teams: Collection[str] | None = None) -> None:
    """Checks the names in filters whose result is empty.

    Raises InvalidKeyField for a name that nothing has, and of which there is no record. What was removed and
    has records is known. `only_teams` are the teams that the reader may see; None means all. Readers do not
    learn whether other teams exist, nor which providers serve these.
    """
    for team in values_of(filters.team):
        await _check_team(connection, team, only_teams)
    if filters.team_id is not None:
        found = select(_teams.id).where(_teams.id == filters.team_id, *_visible(only_teams))
        if not await _has(connection, found):
            await _refuse_unless_recorded(connection, "team_id", filters.team_id, _groups.team_id, only_teams)
    for key in values_of(filters.key):
        await _check_key(connection, key, only_teams)
    for name in _SECTIONS:
        for value in values_of(getattr(filters, name)):
            await _check_configured(connection, name, value, only_teams)


async def check_excluded(connection: AsyncConnection, excluded: NamedFilters, only_teams: Collection[str] | None) -> None:
    """Does what check_named() does, for names that are left out, whatever was found: without them the result would look right."""
    try:
        await check_named(connection, excluded, only_teams)
    except InvalidKeyField as fault:
        raise InvalidKeyField(f"not_{fault.field}", str(fault)) from None


async def _check_team(connection: AsyncConnection, team: str, only_teams: Collection[str] | None) -> None:
    if _is_placeholder(team):
        return
    # Where a team was removed, its id stands for it in sums.
    by_id = [_teams.id == team] if uuid7.is_uuid7(team) else []
    found = select(_teams.id).where(or_(_teams.name == team, *by_id), *_visible(only_teams))
    if not await _has(connection, found):
        await _refuse_unless_recorded(connection, "team", team, _groups.team_id, only_teams)


async def _check_key(connection: AsyncConnection, key: str, only_teams: Collection[str] | None) -> None:
    if _is_placeholder(key):
        return
    of_key = _keys.prefix == key.removeprefix("nx-")
    found = select(_keys.id).join(tables.teams, _teams.id == _keys.team_id).where(of_key, *_visible(only_teams))
    if not await _has(connection, found):
        await _refuse_unless_recorded(connection, "key", key, _groups.key_id, only_teams)


async def _check_configured(connection: AsyncConnection, name: str, value: str, only_teams: Collection[str] | None) -> None:
    if _is_placeholder(value):
        return
    if name == "provider" and only_teams is not None:
        await _check_own_provider(connection, value, only_teams)
        return
    section, table, recorded = _SECTIONS[name]
    names = [value] if name == "provider" else _configured_names(value)
    # A request for a function has its name as that of its model, too.
    sections = {section: table, **({"functions": tables.functions} if name == "model" else {})}
    known = [select(each.c.name).where(each.c.name.in_(names)) for each in sections.values()]
    known.append(select(_changes.name).where(_changes.section.in_(sections), _changes.name.in_(names)))
    sent = [value] if name == "provider" else [each for configured in names for each in sent_names(configured)]
    known.append(select(_groups.id).where(recorded.in_(sent)))
    if not any([await _has(connection, each) for each in known]):
        raise _unknown(name, value)


async def _check_own_provider(connection: AsyncConnection, value: str, only_teams: Collection[str]) -> None:
    """Providers are of the configuration, which readers of some teams do not see: they learn what served these teams alone."""
    served = select(_groups.id).join(tables.teams, _teams.id == _groups.team_id).where(_groups.provider == value, *_visible(only_teams))
    if not await _has(connection, served):
        raise InvalidKeyField("provider", f"No record of your teams is of a provider {value!r:.100}.")


def _visible(only_teams: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if only_teams is None else [_teams.name.in_(only_teams)]


async def _refuse_unless_recorded(
    connection: AsyncConnection, name: str, value: str, recorded: ColumnElement[str], only_teams: Collection[str] | None
) -> None:
    """Raises InvalidKeyField unless `value` is an id that is recorded, and the reader sees all teams.

    What is no longer in its table is shown by its id to such readers.
    """
    if only_teams is None and uuid7.is_uuid7(value) and await _has(connection, select(_groups.id).where(recorded == value)):
        return
    raise _unknown(name, value)


def _configured_names(sent: str) -> list[str]:
    """Returns what a name of a request, which may have prefixes, may be in the configuration."""
    names = [sent]
    for prefix in (*MODEL_PREFIXES, *FUNCTION_PREFIXES):
        names += [each.removeprefix(prefix) for each in names if each.startswith(prefix)]
    return names


def _is_placeholder(value: str) -> bool:
    return value in _PLACEHOLDERS


async def _has(connection: AsyncConnection, found: Select[Any]) -> bool:
    return bool(await connection.scalar(select(exists(found))))


def _unknown(name: str, value: str) -> InvalidKeyField:
    thing = "team with the id" if name == "team_id" else name
    shown = value if name != "key" or value.startswith("nx-") else f"nx-{value}"
    return InvalidKeyField(name, f"There is no {thing} {shown!r:.100}, and no record of one.")
