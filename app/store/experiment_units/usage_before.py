"""Usage of units before their experiment began, from rollups by day."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from app.store.postgres.partitions import Connection
from app.store.usage.rollups import REFUSED
from app.store.usage.sketches import COUNT_BITS, total_of

# Of teams day by day: the index begins with the time, and a range of it has the groups of all teams.
_BEFORE = """
    count(DISTINCT rollup.time) AS days, coalesce(sum(requests), 0) AS requests,
    coalesce(sum(duration_us), 0) AS duration_us, coalesce(sum(cost_microusd), 0) AS cost_microusd,
    coalesce(sum(rollup.input_tokens), 0) AS input_tokens, coalesce(sum(rollup.output_tokens), 0) AS output_tokens
"""
_TEAM_BEFORE = f"""
    SELECT wanted.at, found.* FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::timestamptz[]) AS wanted (at, team_id, since, until)
    CROSS JOIN LATERAL (
        SELECT {_BEFORE} FROM rollup_groups
        CROSS JOIN generate_series(wanted.since, wanted.until - interval '24 hours', interval '24 hours') AS day
        JOIN rollups_by_day_and_team AS rollup ON rollup.time = day AND rollup.group_id = rollup_groups.id
        WHERE rollup_groups.team_id = wanted.team_id AND outcome <> '{REFUSED}'
    ) AS found
"""  # noqa: S608
_SUBJECT_BEFORE = f"""
    SELECT wanted.at, found.*
    FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[])
        AS wanted (at, team_id, since, until, dimension, value)
    CROSS JOIN LATERAL (
        SELECT {_BEFORE} FROM subject_rollups_by_day_and_team AS rollup JOIN rollup_groups ON rollup_groups.id = rollup.group_id
        WHERE rollup.dimension = wanted.dimension AND rollup.value = wanted.value AND rollup.team_id = wanted.team_id
            AND outcome <> '{REFUSED}' AND rollup.time >= wanted.since AND rollup.time < wanted.until
    ) AS found
"""  # noqa: S608
_COUNT_FIRST_TOKENS = f"""
    SELECT at, (entry >> {COUNT_BITS})::int AS bucket, sum(entry & {2**COUNT_BITS - 1}) AS count
"""
_TEAM_FIRST_TOKENS = f"""
    {_COUNT_FIRST_TOKENS}
    FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::timestamptz[]) AS wanted (at, team_id, since, until)
    CROSS JOIN LATERAL (
        SELECT rollup.first_token_sketch FROM rollup_groups
        CROSS JOIN generate_series(wanted.since, wanted.until - interval '24 hours', interval '24 hours') AS day
        JOIN rollups_by_day_and_team AS rollup ON rollup.time = day AND rollup.group_id = rollup_groups.id
        WHERE rollup_groups.team_id = wanted.team_id AND outcome <> '{REFUSED}'
    ) AS found, unnest(found.first_token_sketch) AS entry
    GROUP BY at, bucket
"""  # noqa: S608
_SUBJECT_FIRST_TOKENS = f"""
    {_COUNT_FIRST_TOKENS}
    FROM unnest($1::int[], $2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[])
        AS wanted (at, team_id, since, until, dimension, value)
    CROSS JOIN LATERAL (
        SELECT rollup.first_token_sketch
        FROM subject_rollups_by_day_and_team AS rollup JOIN rollup_groups ON rollup_groups.id = rollup.group_id
        WHERE rollup.dimension = wanted.dimension AND rollup.value = wanted.value AND rollup.team_id = wanted.team_id
            AND outcome <> '{REFUSED}' AND rollup.time >= wanted.since AND rollup.time < wanted.until
    ) AS found, unnest(found.first_token_sketch) AS entry
    GROUP BY at, bucket
"""  # noqa: S608


class Subject(NamedTuple):
    """A subject whose usage before an experiment is wanted, for these metrics.

    `dimension` is `end_user` or `tag:NAME`; None means all usage of the team.
    """

    team_id: str
    dimension: str | None
    value: str
    since: datetime
    until: datetime
    metrics: Sequence[str]


class UsageBefore(Struct, frozen=True):
    """Sums over what a subject sent before an experiment."""

    days: int  # on how many days
    requests: int
    duration_us: int
    cost_microusd: int
    input_tokens: int
    output_tokens: int
    first_token_us: int = 0  # of `first_tokens` inferences that have such a time, as far as sketches know it
    first_tokens: int = 0


async def read_usage_before(connection: Connection, subjects: Sequence[Subject]) -> list[UsageBefore]:
    """Returns each subject's usage from `since` until `until`, from rollups by day, in the given order."""
    found: dict[int, UsageBefore] = {}
    of_teams = [at for at, each in enumerate(subjects) if each.dimension is None]
    of_others = [at for at, each in enumerate(subjects) if each.dimension is not None]
    for positions, query, first_tokens in (
        (of_teams, _TEAM_BEFORE, _TEAM_FIRST_TOKENS),
        (of_others, _SUBJECT_BEFORE, _SUBJECT_FIRST_TOKENS),
    ):
        if not positions:
            continue
        for row in await connection.fetch(query, *_columns_of(subjects, positions)):
            found[row["at"]] = UsageBefore(*map(int, [*row.values()][1:]))
        timed = [at for at in positions if "time_to_first_token" in subjects[at].metrics]
        if timed:
            counts: dict[int, dict[int, int]] = {}
            for row in await connection.fetch(first_tokens, *_columns_of(subjects, timed)):
                counts.setdefault(row["at"], {})[row["bucket"]] = int(row["count"])
            for at, each in counts.items():
                found[at] = replace(found[at], first_token_us=total_of(each), first_tokens=sum(each.values()))
    return [found[at] for at in range(len(subjects))]


def _columns_of(subjects: Sequence[Subject], positions: Sequence[int]) -> list[Any]:
    """Parameters, of subjects of one kind."""
    wanted = [subjects[at] for at in positions]
    names = ("team_id", "since", "until") if wanted[0].dimension is None else ("team_id", "since", "until", "dimension", "value")
    return [positions, *([getattr(each, name) for each in wanted] for name in names)]
