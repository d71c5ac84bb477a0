"""Feedback that waits for its inference or episode: what is due to be looked for, what is woken, and what is given up."""

import datetime
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from app.recording.writes.feedback_writes import lock_feedback
from app.store.postgres.partitions import Connection
from app.store.records.feedback_targets import TargetKey

# Each time four times as long as before: 1 s, 4 s, ..., 4.5 hours, 18 hours, 3 days, ... What is stored meanwhile wakes it.
_WAIT = "interval '1 second' * power(4, least(searches - 1, 12))"
LEASE = datetime.timedelta(seconds=10)  # a search that takes longer is repeated by others, and does no harm
VERY_LATE = datetime.timedelta(hours=12)  # less than SEARCHED_MARGIN of feedback_targets
MAX_COUNTED = 100_000
_MAX_WOKEN = 1_000
_PER_TEAM = 50
_TRIM_LOCK = 0x6E617274_77616974  # for pg_try_advisory_xact_lock

# A turn for each team: one that sends a lot about nothing holds up no other. For whoever claims it, it is not due until LEASE is over.
_CLAIM = f"""
    WITH RECURSIVE team (id) AS (
        (SELECT team_id FROM feedback_pending ORDER BY team_id LIMIT 1)
        UNION ALL
        SELECT (SELECT team_id FROM feedback_pending WHERE team_id > team.id ORDER BY team_id LIMIT 1) FROM team WHERE team.id IS NOT NULL
    ), due AS (
        SELECT of_team.id FROM team CROSS JOIN LATERAL (
            SELECT id, check_at, row_number() OVER (ORDER BY check_at) AS turn FROM (
                SELECT id, check_at FROM feedback_pending WHERE team_id = team.id AND check_at <= now() ORDER BY check_at LIMIT {_PER_TEAM}
            ) AS oldest
        ) AS of_team ORDER BY turn, check_at LIMIT $1
    )
    UPDATE feedback_pending SET check_at = clock_timestamp() + $2::interval, searches = least(searches + 1, 1000) WHERE id IN (
        SELECT id FROM feedback_pending WHERE id IN (SELECT id FROM due) AND check_at <= now() FOR UPDATE SKIP LOCKED
    )
    RETURNING id::text, level, team_id::text, target_id::text, received_at, searched_until, check_at
"""  # noqa: S608
# Not what was woken meanwhile: what woke it may be newer than the search.
_POSTPONE = f"""
    UPDATE feedback_pending SET check_at = now() + {_WAIT}, searched_until = $3 WHERE id IN (
        SELECT pending.id FROM feedback_pending AS pending JOIN unnest($1::uuid[], $2::timestamptz[]) AS claimed (id, check_at)
            ON pending.id = claimed.id AND pending.check_at = claimed.check_at ORDER BY pending.id FOR UPDATE OF pending
    )
"""  # noqa: S608
_RELEASE = """
    UPDATE feedback_pending SET check_at = now() FROM unnest($1::uuid[], $2::timestamptz[]) AS claimed (id, check_at)
    WHERE feedback_pending.id = claimed.id AND feedback_pending.check_at = claimed.check_at
"""
_OF_TARGETS = "target_id = any($2::uuid[]) AND (team_id, target_id) IN (SELECT * FROM unnest($1::uuid[], $2::uuid[]))"
_IS_ANY_ASLEEP = "SELECT EXISTS (SELECT FROM feedback_pending WHERE check_at > now())"
# As texts: the driver takes longer to encode UUIDs than Postgres to look for them.
_AWAITED = f"""
    SELECT DISTINCT team_id::text, target_id::text FROM feedback_pending
    WHERE target_id = any($1::text[]::uuid[]) AND check_at > now() LIMIT {_MAX_WOKEN}
"""  # noqa: S608
_WAKE = f"""
    UPDATE feedback_pending SET check_at = now(), searched_until = CASE WHEN $3 THEN NULL ELSE searched_until END
    WHERE id IN (SELECT id FROM feedback_pending WHERE {_OF_TARGETS} AND check_at > now() ORDER BY id LIMIT {_MAX_WOKEN} FOR UPDATE)
"""  # noqa: S608
# What was given up, too.
_WAIT_AGAIN = f"""
    INSERT INTO feedback_pending (id, team_id, level, target_id, received_at)
    SELECT id, team_id, level, target_id, received_at FROM feedback
    WHERE {_OF_TARGETS} AND matched_at IS NULL ORDER BY id LIMIT {_MAX_WOKEN}
    ON CONFLICT DO NOTHING
"""  # noqa: S608
_TRIM = """
    DELETE FROM feedback_pending WHERE id IN (
        SELECT id FROM feedback_pending WHERE team_id = $1::uuid AND id <= (
            SELECT id FROM feedback_pending WHERE team_id = $1::uuid ORDER BY id DESC OFFSET $2 LIMIT 1
        ) ORDER BY id LIMIT 100000 FOR UPDATE SKIP LOCKED
    )
"""


class Pending(NamedTuple):
    """Feedback that is being looked for.

    `searched_until` is None if it was not looked for yet, or if something older than that may have been
    stored since.
    """

    id: str
    target: TargetKey
    received_at: datetime.datetime
    searched_until: datetime.datetime | None
    claimed_until: datetime.datetime


async def claim_due(connection: Connection, limit: int) -> list[Pending]:
    rows = await connection.fetch(_CLAIM, limit, LEASE)
    return [
        Pending(
            row["id"],
            TargetKey(row["level"], row["team_id"], row["target_id"]),
            *(row["received_at"], row["searched_until"], row["check_at"]),
        )
        for row in rows
    ]


async def postpone(connection: Connection, pending: Sequence[Pending], searched_until: datetime.datetime) -> None:
    """Postpone feedback whose target was looked for and not found, in what was stored by `searched_until`."""
    if pending:
        await connection.execute(_POSTPONE, [each.id for each in pending], [each.claimed_until for each in pending], searched_until)


async def release(connection: Connection, pending: Sequence[Pending]) -> None:
    """Make claimed feedback due again, as nothing came of it."""
    await connection.execute(_RELEASE, [each.id for each in pending], [each.claimed_until for each in pending])


async def stop_waiting(connection: Connection, ids: Collection[str]) -> None:
    await connection.execute("DELETE FROM feedback_pending WHERE id = any($1::uuid[])", list(ids))


async def wake(connection: Connection, targets: AbstractSet[tuple[str, str]]) -> None:
    """Feedback on these inferences and episodes, by team and id as Postgres writes it, which this transaction stores, is due at once.

    From here on the transaction may hold FEEDBACK_LOCK, which comes before locks of rows.
    """
    if not targets or not await connection.fetchval(_IS_ANY_ASLEEP):
        return
    rows = await connection.fetch(_AWAITED, [id for _, id in targets])
    awaited = targets & {(row["team_id"], row["target_id"]) for row in rows}
    if awaited:
        await lock_feedback(connection)
        await connection.execute(_WAKE, *([*column] for column in zip(*awaited, strict=True)), False)


async def wake_all(connection: Connection, targets: AbstractSet[tuple[str, str]]) -> None:
    """Wake feedback as wake() does, for inferences that are stored VERY_LATE.

    Feedback on them that is being stored by another transaction is not missed.
    """
    if targets:
        teams, ids = ([*column] for column in zip(*targets, strict=True))
        await lock_feedback(connection)
        await connection.execute(_WAKE, teams, ids, True)
        await connection.execute(_WAIT_AGAIN, teams, ids)


async def count_unmatched(connection: Connection, age: datetime.timedelta) -> int:
    """Return how many have been waiting for longer than that, at most MAX_COUNTED."""
    query = f"SELECT count(*) FROM (SELECT FROM feedback_pending WHERE received_at < now() - $1::interval LIMIT {MAX_COUNTED}) AS waiting"  # noqa: S608
    count: int = await connection.fetchval(query, age)
    return count


async def give_up_excess(connection: Connection, per_team: int, in_all: int) -> int:
    """Look no longer for the oldest of teams that wait for too much; returns how many. Inside a transaction."""
    if not await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", _TRIM_LOCK):
        return 0
    rows = await connection.fetch("SELECT team_id::text, count(*) FROM feedback_pending GROUP BY team_id")
    waiting = {row["team_id"]: row["count"] for row in rows}
    allowed = share_of_each(waiting, per_team, in_all)
    given_up = 0
    for team_id in sorted(team_id for team_id, count in waiting.items() if count > allowed):
        given_up += int((await connection.execute(_TRIM, team_id, allowed)).rpartition(" ")[2])
    return given_up


def share_of_each(waiting: Mapping[str, int], per_team: int, in_all: int) -> int:
    """Return how much each team may have waiting: `per_team`, or less if all together would have more than
    `in_all`.

    Those that have less than their share leave the rest to others.
    """
    left = in_all
    counts = sorted(min(count, per_team) for count in waiting.values())
    for at, count in enumerate(counts):
        share = left // (len(counts) - at)
        if count > share:
            return share
        left -= count
    return per_team
