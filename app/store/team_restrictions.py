"""What the keys of a team are held to: its validation, how teams store it, and the limits that it implies."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Limit, Snapshot, TeamConfig, TeamLimit, TeamRestrictions
from app.store import tables
from app.store.errors import BadConfiguration, InvalidKeyField
from app.store.key_validation import check_models, check_networks, check_routes
from app.store.limit_validation import check_amount, check_period
from app.store.restrictions import find_wider_network, find_wider_pattern

MAX_LIMITS = 20
FIELDS = TeamRestrictions.__struct_fields__
_LIMIT_FIELDS = TeamLimit.__struct_fields__


def check_restrictions(team: TeamRestrictions) -> None:
    """Raises InvalidKeyField."""
    check_models(team.models)
    check_routes(team.routes)
    check_networks(team.networks)
    if len(team.limits) > MAX_LIMITS:
        raise InvalidKeyField("limits", f"`limits` has {len(team.limits)} entries; a team has at most {MAX_LIMITS}.")
    seen: set[object] = set()
    for at, limit in enumerate(team.limits):
        path = f"limits[{at}]"
        try:
            as_rule = _to_limit("the team", limit)
            check_period(as_rule, path)
            check_amount(as_rule, path)
        except BadConfiguration as fault:
            raise InvalidKeyField("limits", str(fault)) from None
        counted = (limit.resource, limit.per, limit.model, limit.time_zone)
        if counted in seen:
            raise InvalidKeyField(
                "limits", f"{path} counts what an earlier one does: a key is held to the lower of them, so leave the other out."
            )
        seen.add(counted)


def restrictions_column(team: TeamRestrictions) -> dict[str, Any] | None:
    """The column of a team; null for no restriction."""
    stored = {name: value for name, value in msgspec.to_builtins(team).items() if name in FIELDS}
    return stored or None


def from_restrictions_column(stored: Any) -> TeamRestrictions:
    """`stored`: as a driver reads it, decoded or as text."""
    if stored is None:
        return TeamRestrictions()
    return msgspec.json.decode(stored, type=TeamRestrictions) if isinstance(stored, str) else msgspec.convert(stored, TeamRestrictions)


async def read_restrictions(connection: AsyncConnection, team: str) -> TeamRestrictions:
    return from_restrictions_column(await connection.scalar(select(tables.teams.c.restrictions).where(tables.teams.c.name == team)))


async def check_within_team(connection: AsyncConnection, team: str, terms: Mapping[str, Any]) -> None:
    """Raises InvalidKeyField for models, routes or networks of a key that its team's do not include."""
    held_to = await read_restrictions(connection, team)
    for field, find_wider in (("models", find_wider_pattern), ("routes", find_wider_pattern), ("networks", find_wider_network)):
        allowed, wanted = getattr(held_to, field), terms.get(field)
        wider = None if wanted is None else find_wider(allowed, wanted)
        if wider is not None:
            shown = ", ".join(allowed[:20])
            raise InvalidKeyField(field, f"`{field}`: {wider!r:.100} is more than the keys of team {team!r:.100} may have: {shown}.")


def team_limits(snapshot: Snapshot) -> Iterator[Limit]:
    """Limits of each key of teams, named after the teams."""
    for team, limits in snapshot.team_limits.items():
        for limit in limits:
            yield _to_limit(team, limit)


def _to_limit(team: str, limit: TeamLimit) -> Limit:
    name = "/".join(filter(None, ("team", team, limit.resource, limit.per, limit.model)))
    scope = {"team": team, "key": "each", **({} if limit.model is None else {"model": limit.model})}
    return Limit(name, scope, limit.resource, limit.amount, limit.per, time_zone=limit.time_zone)


def with_restrictions(values: Mapping[str, Any], restrictions: TeamRestrictions) -> TeamConfig:
    """The settings of a team. `values`: those that are columns of their own."""
    return TeamConfig(**values, **{name: getattr(restrictions, name) for name in FIELDS})
