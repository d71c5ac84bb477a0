"""Limits of single keys that no file has had: they came with a key over the admin API.

Applying a file does not prune them, and a rollback keeps them. They go with the model or function that they are about.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Text, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.limits import Limit
from app.domain.snapshot import Snapshot
from app.store.configuration.rows import State, by_name
from app.store.configuration.validation.limits import counted_subject
from app.store.postgres import tables
from app.store.postgres.conditions import one_of

_MAX_SHOWN = 10
_limits = tables.limits
_KEY_NAME = literal_column("(limits.config -> 'scope') ->> 'key'", Text)


async def read_limits_of_keys(connection: AsyncConnection) -> set[str]:
    """Their names."""
    query = select(_limits.c.name).where(_KEY_NAME.is_not(None), _KEY_NAME != "each", ~_limits.c.in_file)
    return set(await connection.scalars(query))


def find_kept_limits(current: State, wanted: State, of_keys: Collection[str]) -> tuple[Sequence[Limit], list[str]]:
    """All limits that are to be, and sentences about those of keys: `of_keys` has their names.

    `wanted` gets those that it lacks, unless one of its own counts the same, and loses those about a model or function that it lacks.
    """
    own = wanted.snapshot.limits
    names = {limit.name for limit in own}
    subjects = {counted_subject(limit) for limit in own} if of_keys else set[object]()
    lacking = [
        limit
        for name, limit in by_name(current.snapshot.limits).items()
        if name in of_keys and name not in names and counted_subject(limit) not in subjects
    ]
    limits, about_removed = drop_limits_about_missing(wanted.snapshot, [*own, *lacking], of_keys)
    kept = [limit.name for limit in limits if limit.name not in names]
    about_kept = f"Kept, as keys were given them over the admin API: limits {_join(kept)}. DELETE /admin/v1/limits/NAME removes one."
    return limits, [*about_removed, *([about_kept] if kept else [])]


def drop_limits_about_missing(wanted: Snapshot, limits: Sequence[Limit], of_keys: Collection[str]) -> tuple[list[Limit], list[str]]:
    """The limits without those of keys that are about a model or function which `wanted` lacks, and a sentence about these.

    Whoever gives keys limits within a team must not keep others from removing a model.
    """
    removed = {limit.name for limit in limits if limit.name in of_keys and _is_about_missing(wanted, limit)}
    left = [limit for limit in limits if limit.name not in removed]
    sentence = f"Removed with what they are about, as keys were given them over the admin API: limits {_join(sorted(removed))}."
    return left, [sentence] if removed else []


def _is_about_missing(wanted: Snapshot, limit: Limit) -> bool:
    model, function = limit.scope.get("model", "each"), limit.scope.get("function", "each")
    return (model != "each" and model not in wanted.models) or (function != "each" and function not in wanted.functions)


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_SHOWN]) + (f" and {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else "")


async def own_by_file(connection: AsyncConnection, names: Collection[str]) -> None:
    """A file has these limits from now on: what it lacks later is pruned."""
    if names:
        await connection.execute(update(_limits).where(one_of(_limits.c.name, names), ~_limits.c.in_file).values(in_file=True))
