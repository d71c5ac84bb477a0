"""Whether what the keys of a team are held to is valid, and whether a key stays within it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import MAX_TEAM_LIMITS, TeamConfig
from app.domain.errors import BadConfiguration, InvalidKeyField
from app.store.configuration.validation.limits import check_amount, check_period
from app.store.keys.restrictions import find_wider_network, find_wider_pattern
from app.store.keys.team_columns import limit_of_each_key, read_restrictions
from app.store.keys.validation import check_models, check_networks, check_routes


def check_restrictions(team: TeamConfig) -> None:
    """Raises InvalidKeyField."""
    check_models(team.models)
    check_routes(team.routes)
    check_networks(team.networks)
    if len(team.limits) > MAX_TEAM_LIMITS:
        raise InvalidKeyField("limits", f"`limits` has {len(team.limits)} entries; a team has at most {MAX_TEAM_LIMITS}.")
    seen: set[object] = set()
    for at, limit in enumerate(team.limits):
        path = f"limits[{at}]"
        try:
            as_rule = limit_of_each_key("the team", limit)
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


async def check_within_team(connection: AsyncConnection, team: str, terms: Mapping[str, Any]) -> None:
    """Raises InvalidKeyField for models, routes or networks of a key that its team's do not include."""
    held_to = await read_restrictions(connection, team)
    for field, find_wider in (("models", find_wider_pattern), ("routes", find_wider_pattern), ("networks", find_wider_network)):
        allowed, wanted = getattr(held_to, field), terms.get(field)
        wider = None if wanted is None else find_wider(allowed, wanted)
        if wider is not None:
            shown = ", ".join(allowed[:20])
            raise InvalidKeyField(field, f"`{field}`: {wider!r:.100} is more than the keys of team {team!r:.100} may have: {shown}.")
