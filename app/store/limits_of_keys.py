"""Limits of single keys that no file has had: they came with a key over the admin API, and applying a file does not prune them."""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Text, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import Limit
from app.store import tables
from app.store.configuration_rows import State, by_name, one_of
from app.store.limit_validation import counted_subject

_MAX_SHOWN = 10
_limits = tables.limits
_KEY_NAME = literal_column("(limits.config -> 'scope') ->> 'key'", Text)


async def read_limits_of_keys(connection: AsyncConnection) -> dict[str, str]:
    """The key of each, by the limit's name."""
    query = select(_limits.c.name, _KEY_NAME.label("key")).where(_KEY_NAME.is_not(None), _KEY_NAME != "each", ~_limits.c.in_file)
    return {row.name: row.key for row in await connection.execute(query)}


def find_kept_limits(current: State, merged: State, of_keys: Mapping[str, str]) -> tuple[Sequence[Limit], list[str]]:
    """All limits that are to be: with those that `merged` lacks, unless one of its own counts the same; and a sentence about them."""
    names = {limit.name for limit in merged.snapshot.limits}
    subjects = {counted_subject(limit) for limit in merged.snapshot.limits} if of_keys else set[object]()
    kept = [
        limit
        for name, limit in by_name(current.snapshot.limits).items()
        if name in of_keys and name not in names and counted_subject(limit) not in subjects
    ]
    if not kept:
        return merged.snapshot.limits, []

    shown = ", ".join(limit.name for limit in kept[:_MAX_SHOWN]) + (f" and {len(kept) - _MAX_SHOWN} more" if len(kept) > _MAX_SHOWN else "")
    sentence = f"Kept, as keys were given them over the admin API: limits {shown}. DELETE /admin/v1/limits/NAME removes one."
    return [*merged.snapshot.limits, *kept], [sentence]


async def own_by_file(connection: AsyncConnection, names: Collection[str]) -> None:
    """A file has these limits from now on: what it lacks later is pruned."""
    if names:
        await connection.execute(update(_limits).where(one_of(_limits.c.name, names), ~_limits.c.in_file).values(in_file=True))
