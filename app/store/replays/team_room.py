"""How many replays a team may have: running ones, kept ones, and requests in those."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables

MAX_RUNNING_OF_TEAM = 20
# Replays that are kept, and items of them, whether they have ended or not.
MAX_KEPT_OF_TEAM, MAX_ITEMS_OF_TEAM = 10_000, 1_000_000
_NAMED_REPLAYS = 3

_replays = tables.replays.c


class TooManyReplays(Exception):
    """The team has as many replays that have not ended, or as many items of replays, as it may have. The message says what to do."""


async def check_running(connection: AsyncConnection, team_id: str, team: str | None) -> None:
    """Raises TooManyReplays if none may begin to run. Until the end of the transaction no other of the team begins, either."""
    await connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended('narthex replays ' || :team, 0))"), {"team": team_id})
    running = select(func.count()).where(_replays.team_id == team_id, _replays.status == "running")
    if (await connection.scalar(running) or 0) >= MAX_RUNNING_OF_TEAM:
        raise TooManyReplays(f"The team {team!r:.100} has {MAX_RUNNING_OF_TEAM} replays that have not ended. Wait, or cancel one.")


# Items are numbered from 1.
_ITEMS_OF_TEAM = text("""
    SELECT id::text, status, created_at, coalesce((SELECT max(number) FROM replay_items WHERE replay_id = replays.id), 0) AS items
    FROM replays WHERE team_id = :team LIMIT :limit
""")


async def read_kept(connection: AsyncConnection, team_id: str) -> Sequence[Row[Any]]:
    """The replays that a team keeps, each with the number of its items."""
    return (await connection.execute(_ITEMS_OF_TEAM, {"team": team_id, "limit": MAX_KEPT_OF_TEAM})).all()


def check_room(team: str, kept: Sequence[Row[Any]], added: int) -> None:
    """Raises TooManyReplays, which names the largest that have ended. `kept` is what read_kept() returns."""
    items = sum(row.items for row in kept)
    if len(kept) < MAX_KEPT_OF_TEAM and items + added <= MAX_ITEMS_OF_TEAM:
        return
    ended = sorted((row for row in kept if row.status != "running"), key=lambda row: (-row.items, row.created_at))[:_NAMED_REPLAYS]
    named = ", ".join(f"{row.id} ({row.items:,} requests, of {row.created_at:%Y-%m-%d})" for row in ended)
    raise TooManyReplays(
        f"The team {team!r:.100} keeps {len(kept):,} replays of {items:,} requests, and {added:,} requests more are too many: at most"
        f" {MAX_KEPT_OF_TEAM:,} replays are kept, and {MAX_ITEMS_OF_TEAM:,} requests in them. Take fewer (`max_items`), or delete replays"
        " that are no longer needed (`narthex replay delete ID`, DELETE /admin/v1/replays/ID)"
        + (f", such as {named}." if named else ", once they have ended.")
    )
