"""Limits that go on for others: one that counts what a removed one counted keeps its counters, so renaming a limit keeps what is spent."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import bindparam, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain import uuid7
from app.domain.limits import Limit
from app.store.configuration.validation.limits import counted_subject
from app.store.postgres import tables
from app.store.postgres.batches import execute_in_batches

_limits = tables.limits

# Those of the same subject that the heir has already stay: one subject has one.
_MOVE_OVERRIDES = text("""
    UPDATE limit_overrides AS moved SET limit_name = :heir WHERE limit_name = :removed AND NOT EXISTS (
        SELECT 1 FROM limit_overrides AS own
        WHERE own.limit_name = :heir AND own.subject = moved.subject AND own.ended_at IS NULL AND moved.ended_at IS NULL)
""")


class Counters(Struct, frozen=True):
    """The counters of a limit: what they are named after, and since when they count.

    `since` is None if they have counted since before that was recorded.
    """

    name: str
    since: datetime | None


async def read_counters(connection: AsyncConnection) -> dict[str, Counters]:
    rows = await connection.execute(select(_limits.c.name, _limits.c.counts_as, _limits.c.counted_since))
    return {row.name: Counters(row.counts_as or row.name, row.counted_since) for row in rows}


def find_heirs(before: Mapping[str, Limit], after: Mapping[str, Limit], counters: Mapping[str, Counters]) -> dict[str, str]:
    """Returns the heirs of limits that are removed, or that count something else from now on, by their names.

    An heir counts the same and goes on for the other. It is new, or has counted for less long: what it has
    counted itself the other one has counted, too.
    """
    kept = {name for name, limit in after.items() if name in before and counted_subject(before[name]) == counted_subject(limit)}
    by_subject: dict[object, list[str]] = {}
    for name, limit in after.items():
        by_subject.setdefault(counted_subject(limit), []).append(name)
    heirs: dict[str, str] = {}
    for name, limit in before.items():
        if name in kept:
            continue
        for candidate in by_subject.get(counted_subject(limit), ()):
            if candidate not in heirs.values() and (candidate not in kept or _is_longer(counters.get(name), counters.get(candidate))):
                heirs[name] = candidate
                break
    return heirs


async def keep_counters(
    connection: AsyncConnection, heirs: Mapping[str, str], new: Sequence[str], counters: Mapping[str, Counters]
) -> None:
    """Lets heirs go on with counters, and gives others that are `new` counters that no other limit has.

    All of them are stored already. Overrides of a limit move to its heir.
    """
    inherited = ((heir, counters[removed]) for removed, heir in heirs.items() if removed in counters)
    await _store(connection, ((heir, each.name, each.since) for heir, each in inherited))
    in_use = {counters[removed].name for removed in heirs if removed in counters}
    in_use |= {each.name for name, each in counters.items() if each.name != name and name not in heirs}
    own = [name for name in new if name not in heirs.values()]
    renewed = [{"limit": name, "counted": f"{name}\n{uuid7.mint()}" if name in in_use else None} for name in own]
    statement = update(_limits).where(_limits.c.name == bindparam("limit")).values(counts_as=bindparam("counted"))
    await execute_in_batches(connection, statement, renewed)
    for removed, heir in heirs.items():
        await connection.execute(_MOVE_OVERRIDES, {"removed": removed, "heir": heir})


async def _store(connection: AsyncConnection, counted: Any) -> None:
    statement = (
        update(_limits).where(_limits.c.name == bindparam("limit")).values(counts_as=bindparam("counted"), counted_since=bindparam("since"))
    )
    rows = (
        {"limit": name, "counted": None if name == counted_name else counted_name, "since": since} for name, counted_name, since in counted
    )
    await execute_in_batches(connection, statement, rows)


def _is_longer(one: Counters | None, other: Counters | None) -> bool:
    """Whether the first has counted for longer, as far as is known."""
    if one is None or other is None or other.since is None:
        return False
    return one.since is None or one.since < other.since
