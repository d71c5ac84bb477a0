"""Limit matches: when requests last matched each limit, to the minute.

Workers report them now and then, and so limits are found that no request matches.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import func, or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.postgres import tables
from app.store.postgres.paging import Keyset, Page, PageQuery, SortColumn

_limits, _matches = tables.limits, tables.limit_matches
_KEYSET = Keyset({"name": SortColumn(_limits.c.name)}, SortColumn(_limits.c.name))
_BATCH = 1000

# In the order of names, so that workers do not deadlock. Those of limits that were deleted meanwhile are left out.
_STORE = text("""
    INSERT INTO limit_matches AS stored (name, matched_at)
    SELECT limits.name, now() FROM limits WHERE limits.name = ANY(CAST(:names AS text[])) ORDER BY limits.name FOR KEY SHARE
    ON CONFLICT (name) DO UPDATE SET matched_at = excluded.matched_at WHERE stored.matched_at < now() - interval '1 minute'
""")


class UnmatchedLimit(Struct, frozen=True):
    """A limit that no request has matched for a while. `last_matched_at` null: none has as far as is known."""

    name: str
    scope: Mapping[str, str]
    resource: str
    per: str | None
    created_at: str
    last_matched_at: str | None


async def store_matches(connection: AsyncConnection, names: Sequence[str]) -> None:
    """Stores that requests have just matched these limits."""
    for start in range(0, len(names), _BATCH):
        await connection.execute(_STORE, {"names": list(names[start : start + _BATCH])})


async def page_unmatched(connection: AsyncConnection, query: PageQuery, since: datetime) -> Page[UnmatchedLimit]:
    """Limits that no request has matched since then, in any worker; newer limits, too."""
    selected: Any = (
        select(_limits.c.name, _limits.c.config, _limits.c.created_at, _matches.c.matched_at)
        .outerjoin(_matches, _matches.c.name == _limits.c.name)
        .where(or_(_matches.c.matched_at.is_(None), _matches.c.matched_at < since))
    )
    rows = (await connection.execute(_KEYSET.page_query(selected, query))).all()
    return _KEYSET.page(rows, query, _to_unmatched)


async def known_since(connection: AsyncConnection) -> datetime:
    """Returns since when matches are stored at all."""
    since = await connection.scalar(select(func.min(tables.limit_matches_since.c.since)))
    assert since is not None, "the migration stores it"
    return since


def _to_unmatched(row: Any) -> UnmatchedLimit:
    config, matched_at = row.config, row.matched_at
    shown = row.name, config["scope"], config["resource"], config.get("per"), row.created_at.isoformat()
    return UnmatchedLimit(*shown, None if matched_at is None else matched_at.isoformat())
