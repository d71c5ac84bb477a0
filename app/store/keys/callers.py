"""Queries of workers about keys: callers by prefix, versions, and what has changed since a version."""

import asyncio
import hmac
from collections.abc import Mapping
from typing import Any, cast

import asyncpg
from msgspec import Struct
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.domain.callers import Caller, ContentPolicy
from app.store.keys.droppable_fields import from_drop_column, unite_drops
from app.store.keys.mask_rules import from_mask_column
from app.store.keys.restrictions import narrow_networks, narrow_patterns
from app.store.keys.team_columns import from_restrictions_column

MAX_CHANGES = 10_000

_SELECT = """
SELECT k.id::text, k.team_id::text, k.admin, k.prefix, k.counts_as, k.hash, k.models, k.routes, k.networks,
       extract(epoch FROM k.expires_at)::float8 AS expires_s, k.drop AS key_drop, t.name AS team, t.content, t.drop AS team_drop, t.mask,
       t.restrictions,
       coalesce(k.priority, t.priority) AS priority
FROM keys k JOIN teams t ON t.id = k.team_id
"""
_FIND = f"{_SELECT} WHERE k.prefix = ANY($1::text[]) AND k.revoked_at IS NULL"
_FIND_HOLDER = text(f"{_SELECT} WHERE (k.id = CAST(:key_id AS uuid) OR k.prefix = :prefix) AND (k.revoked_at IS NULL OR :with_revoked)")
_VERSIONS = """
SELECT (SELECT version FROM snapshot_version) AS snapshot,
       (SELECT version FROM keys_version) AS keys,
       (SELECT last_removal_version FROM keys_version) AS last_removal,
       extract(epoch FROM clock_timestamp())::float8 AS now_s
"""


class Versions(Struct, frozen=True):
    """Current versions."""

    snapshot: int
    keys: int
    last_removal: int  # the version of the keys when rows were last removed
    now_s: float  # Unix time on Postgres's clock


class ChangedKeys(Struct, frozen=True):
    """Hashes of keys and ids of teams."""

    keys: list[bytes]
    teams: list[str]


async def find_callers(connection: "asyncpg.Connection[Any]", prefixes_by_hash: Mapping[bytes, str]) -> dict[bytes, Caller]:
    """The callers of keys, by the keys' hashes; without those that are unknown or revoked."""
    stored = {row["prefix"]: row for row in await connection.fetch(_FIND, list(set(prefixes_by_hash.values())))}
    found: dict[bytes, Caller] = {}
    for hash, prefix in prefixes_by_hash.items():
        if (row := stored.get(prefix)) is not None and hmac.compare_digest(row["hash"], hash):
            found[hash] = _caller(row)
            if row["restrictions"] is not None:
                await asyncio.sleep(0)  # Its restrictions and its team's may be thousands: others are served in between.
    return found


async def find_key_holder(
    connection: AsyncConnection, *, key_id: str | None = None, prefix: str | None = None, with_revoked: bool = False
) -> Caller | None:
    """The caller that a key stands for, whose secret nobody sends. None: there is no such key, or it is revoked. `prefix` has no nx-."""
    values = {"key_id": key_id, "prefix": prefix, "with_revoked": with_revoked}
    row = (await connection.execute(_FIND_HOLDER, values)).mappings().first()
    return None if row is None else _caller(row)


async def read_versions(connection: "asyncpg.Connection[Any]") -> Versions:
    """The current versions, in one query of two rows: every worker runs it every second."""
    row = await connection.fetchrow(_VERSIONS)
    assert row is not None
    return Versions(row["snapshot"] or 0, row["keys"] or 0, row["last_removal"] or 0, row["now_s"])


async def read_changes(connection: "asyncpg.Connection[Any]", since: int) -> ChangedKeys | None:
    """Returns what has changed since a version of the keys.

    Returns None if more than MAX_CHANGES keys or teams have changed.
    """
    keys = await connection.fetch("SELECT hash FROM keys WHERE changed > $1 LIMIT $2", since, MAX_CHANGES + 1)
    teams = await connection.fetch("SELECT id::text FROM teams WHERE changed > $1 LIMIT $2", since, MAX_CHANGES + 1)
    if max(len(keys), len(teams)) > MAX_CHANGES:
        return None
    return ChangedKeys([row["hash"] for row in keys], [row["id"] for row in teams])


def _caller(row: Any) -> Caller:
    team = from_restrictions_column(row["restrictions"])
    return Caller(
        key_id=row["id"],
        team_id=row["team_id"],
        team=row["team"],
        content=cast(ContentPolicy, row["content"]),
        admin=row["admin"],
        prefix=f"nx-{row['prefix']}",
        models=narrow_patterns(team.models, _to_tuple(row["models"])),
        # Routes of callers: what an admin key is for has none of them.
        routes=_to_tuple(row["routes"]) if row["admin"] else narrow_patterns(team.routes, _to_tuple(row["routes"])),
        networks=narrow_networks(team.networks, _to_tuple(row["networks"])),
        expires_s=row["expires_s"],
        drop=unite_drops(from_drop_column(row["team_drop"]), from_drop_column(row["key_drop"])),
        priority=row["priority"],
        mask=from_mask_column(row["mask"]),
        counts_as=f"nx-{row['counts_as']}" if row["counts_as"] else "",
        fallbacks=team.fallbacks,
    )


def _to_tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)
