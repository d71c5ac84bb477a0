"""Restrictions of a team's keys: how teams store them, and the limits that they imply."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import TeamConfig, TeamLimit, TeamRestrictions
from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.store.postgres import tables

MAX_LIMITS = 20
FIELDS = TeamRestrictions.__struct_fields__
_LIMIT_FIELDS = TeamLimit.__struct_fields__


def restrictions_column(team: TeamRestrictions) -> dict[str, Any] | None:
    """The column of a team; null for no restriction."""
    stored = {name: value for name, value in msgspec.to_builtins(team).items() if name in FIELDS}
    return stored or None


def from_restrictions_column(stored: Any) -> TeamRestrictions:
    """Reads the column, whose value is as a driver reads it, decoded or as text."""
    if stored is None:
        return TeamRestrictions()
    return msgspec.json.decode(stored, type=TeamRestrictions) if isinstance(stored, str) else msgspec.convert(stored, TeamRestrictions)


async def read_restrictions(connection: AsyncConnection, team: str) -> TeamRestrictions:
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


def with_restrictions(values: Mapping[str, Any], restrictions: TeamRestrictions) -> TeamConfig:
    """The settings of a team. `values` are those that are columns of their own."""
    return TeamConfig(**values, **{name: getattr(restrictions, name) for name in FIELDS})
