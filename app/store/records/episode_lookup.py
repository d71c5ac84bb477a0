"""Episodes by what their callers name them by: a UUIDv7, or a text, which stands for another id in each team."""

from collections.abc import Collection

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.episode_names import episode_id_of, is_uuid8, name_problem
from app.domain.errors import InvalidKeyField
from app.store.postgres import tables
from app.store.postgres.conditions import AnyOf, one_of, values_of

MAX_TEAMS = 1_000  # whose ids of one text are looked for at once


def check_episode(named: str, field: str = "episode_id") -> str:
    """Returns the name of an episode as it is. Raises InvalidKeyField if nothing can be named so."""
    problem = None if uuid7.is_uuid7(named) else name_problem(named)
    if problem is not None:
        raise InvalidKeyField(field, f"`{field}` must be the UUID of an episode, or the text that its caller names it by: {problem}.")
    return named


async def find_episode_ids(
    connection: AsyncConnection,
    named: str,
    *,
    team: AnyOf | None = None,
    team_id: str | None = None,
    only_teams: Collection[str] | None = None,
) -> list[str]:
    """The ids that an episode so named may have: of one team (whose name is `team`), of some, or of all. Of several, those that are
    recorded.

    Raises InvalidKeyField where a text may be of too many teams.
    """
    if uuid7.is_uuid7(named):
        return [named.lower()]
    if team_id is not None:
        return [episode_id_of(team_id, named)]
    query = select(tables.teams.c.id)
    if team is not None:
        query = query.where(one_of(tables.teams.c.name, values_of(team)))
    if only_teams is not None:
        query = query.where(one_of(tables.teams.c.name, only_teams))
    team_ids = (await connection.execute(query.limit(MAX_TEAMS + 1))).scalars().all()
    if len(team_ids) > MAX_TEAMS:
        raise InvalidKeyField(
            "team", f"There are more than {MAX_TEAMS:,} teams, and a text names another episode in each: name the team, too."
        )
    of_removed_teams = [named.lower()] if is_uuid8(named) else []
    ids = sorted({*(episode_id_of(each, named) for each in team_ids), *of_removed_teams})
    return ids if len(ids) < 2 else await _recorded(connection, ids)


async def _recorded(connection: AsyncConnection, ids: list[str]) -> list[str]:
    """Those that an inference has. A list of inferences by all of them would be planned as if many had one, and read every row."""
    await connection.execute(_SET_SCANS, {"value": "off"})
    rows = await connection.execute(_FIND_RECORDED, {"ids": ids})
    await connection.execute(_SET_SCANS, {"value": "on"})
    return list(rows.scalars())


# One look into the index for each id, whatever Postgres expects to find.
_SET_SCANS = text("SELECT set_config('enable_seqscan', :value, true)")
_FIND_RECORDED = text("""
    SELECT wanted.id::text FROM unnest(CAST(:ids AS uuid[])) AS wanted (id)
    CROSS JOIN LATERAL (SELECT 1 FROM inferences WHERE episode_id = wanted.id LIMIT 1) AS found
""")
