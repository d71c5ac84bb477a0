"""Teams as their table has them, and the limits of their keys."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamConfig, TeamLimit
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.store.keys.droppable_fields import drop_column, from_drop_column
from app.store.keys.mask_rules import from_mask_column, mask_column
from app.store.postgres import tables

SETTINGS = TeamConfig.__struct_fields__
# The settings that the table has no column for: `restrictions` has them, as JSON.
RESTRICTIONS = tuple(name for name in SETTINGS if name not in tables.teams.c)
COLUMNS = (*(tables.teams.c[name] for name in SETTINGS if name not in RESTRICTIONS), tables.teams.c.restrictions)
# How columns are written and read whose values are not those of the settings.
_FORMS: Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "drop": (drop_column, from_drop_column),
    "mask": (mask_column, from_mask_column),
}
_AS_IT_IS: tuple[Callable[[Any], Any], Callable[[Any], Any]] = (lambda value: value, lambda value: value)
_NO_RESTRICTIONS = TeamConfig()


def team_columns(team: TeamConfig, settings: Collection[str] = SETTINGS) -> dict[str, Any]:
    """The columns that store these settings of a team. Raises InvalidKeyField."""
    own = [name for name in settings if name not in RESTRICTIONS]
    columns = {name: _FORMS.get(name, _AS_IT_IS)[0](getattr(team, name)) for name in own}
    if len(own) < len(settings):
        stored = msgspec.to_builtins(team)
        columns["restrictions"] = {name: stored[name] for name in RESTRICTIONS if name in stored} or None
    return columns


def from_team_columns(row: Any) -> TeamConfig:
    own = {name: _FORMS.get(name, _AS_IT_IS)[1](getattr(row, name)) for name in SETTINGS if name not in RESTRICTIONS}
    return msgspec.structs.replace(from_restrictions_column(row.restrictions), **own)


def from_restrictions_column(stored: Any) -> TeamConfig:
    """Reads the settings that are among RESTRICTIONS from the column, whose value is as a driver reads it, decoded or as text."""
    if stored is None:
        return _NO_RESTRICTIONS
    return msgspec.json.decode(stored, type=TeamConfig) if isinstance(stored, str) else msgspec.convert(stored, TeamConfig)


async def read_restrictions(connection: AsyncConnection, team: str) -> TeamConfig:
    return from_restrictions_column(await connection.scalar(select(tables.teams.c.restrictions).where(tables.teams.c.name == team)))


def team_limits(snapshot: Snapshot) -> Iterator[Limit]:
    """Limits of each key of teams, named after the teams."""
    for team, limits in snapshot.team_limits.items():
        for limit in limits:
            yield limit_of_each_key(team, limit)


def limit_of_each_key(team: str, limit: TeamLimit) -> Limit:
    name = "/".join(filter(None, ("team", team, limit.resource, limit.per, limit.model)))
    scope = {"team": team, "key": "each", **({} if limit.model is None else {"model": limit.model})}
    return Limit(name, scope, limit.resource, limit.amount, limit.per, time_zone=limit.time_zone)
