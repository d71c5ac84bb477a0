"""Looks up whom tokens and sessions stand for. Unknown ones, however many, cost one query at a time on one connection."""

import asyncio
from typing import Any

import asyncpg
import msgspec

from app.store.access.accounts import GroupRoles
from app.store.access.key_sessions import KeySession
from app.store.access.roles import Grant, Principal
from app.store.keys.key_format import hash_key
from app.store.postgres.pg_connection import PgConnection

_LOOKUP_TIMEOUT_S = 3.0  # a caller waits for it
_RETRY_AFTER_S = 1.0
_MAX_TOKENS_PER_QUERY = 200
_MAX_WAITING = 2_000
_TOKEN_CHARACTERS = 47  # four of the prefix, and 32 random bytes in base64

# A session ends when it was not used for $2 seconds. `used_at` is written once a minute at most, unless sessions end soon.
_FIND = """
SELECT t.hash, t.id::text AS session_id, p.id::text AS id, p.kind, p.name, p.groups, k.hash AS key_hash, k.prefix,
       t.used_at IS NULL OR t.used_at < now() - make_interval(secs => least(60, $2 / 10)) AS is_stale,
       (SELECT json_agg(json_build_object('role', g.role, 'team', m.name))
        FROM role_grants g LEFT JOIN teams m ON m.id = g.team_id
        WHERE g.principal_id = p.id OR g.group_name = ANY(p.groups)) AS grants
FROM admin_tokens t LEFT JOIN principals p ON p.id = t.principal_id LEFT JOIN keys k ON k.id = t.key_id
WHERE t.hash = ANY($1::bytea[]) AND t.kind <> 'once' AND t.revoked_at IS NULL AND p.disabled_at IS NULL
  AND (t.expires_at IS NULL OR t.expires_at > now())
  AND (t.kind = 'service_account' OR coalesce(t.used_at, t.created_at) > now() - make_interval(secs => $2))
"""
_MARK_USED = "UPDATE admin_tokens SET used_at = now() WHERE id = ANY($1::uuid[])"


class TooManyLookups(Exception):
    """Too many tokens are waiting to be looked up."""


class TokenLookups:
    """Looks up whom the tokens of the admin API stand for.

    A session that was not used for `idle_s` has ended. `group_roles` are as the settings give them.
    """

    def __init__(self, database_url: str, idle_s: float, group_roles: GroupRoles) -> None:
        self._connection = PgConnection(database_url, retry_after_s=_RETRY_AFTER_S, timeout_s=_LOOKUP_TIMEOUT_S)
        self._idle_s = idle_s
        self._group_roles = group_roles
        self._waiting: dict[bytes, asyncio.Future[Principal | KeySession | None]] = {}
        self._task: asyncio.Task[None] | None = None

    async def find(self, token: str) -> Principal | KeySession | None:
        """Returns whom a token stands for, with the roles in force now; of a session that a key began, that key.

        Returns None if it is unknown, expired or revoked, or its holder is disabled. Raises TooManyLookups,
        and an error of any kind if it could not be looked up.
        """
        if len(token) != _TOKEN_CHARACTERS:
            return None
        hash = hash_key(token)
        result = self._waiting.get(hash)
        if result is None:
            if len(self._waiting) >= _MAX_WAITING:
                raise TooManyLookups
            result = self._waiting[hash] = asyncio.get_running_loop().create_future()
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look_up_waiting())
        async with asyncio.timeout(_LOOKUP_TIMEOUT_S):
            return await asyncio.shield(result)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._connection.close()

    async def _look_up_waiting(self) -> None:
        while self._waiting:
            batch = {hash: self._waiting.pop(hash) for hash in list(self._waiting)[:_MAX_TOKENS_PER_QUERY]}
            try:
                found = await self._connection.run(lambda connection, hashes=list(batch): self._query(connection, hashes))
            except Exception as fault:
                for result in batch.values():
                    result.set_exception(fault)
                    result.exception()  # marks it as retrieved: whoever waited may be gone
            else:
                for hash, result in batch.items():
                    result.set_result(found.get(hash))

    async def _query(self, connection: "asyncpg.Connection[Any]", hashes: list[bytes]) -> dict[bytes, Principal | KeySession]:
        rows = await connection.fetch(_FIND, hashes, self._idle_s)
        stale = [row["session_id"] for row in rows if row["is_stale"]]
        if stale:
            await connection.execute(_MARK_USED, stale)
        return {bytes(row["hash"]): self._to_principal(row) for row in rows}

    def _to_principal(self, row: Any) -> Principal | KeySession:
        if row["prefix"] is not None:
            return KeySession(row["session_id"], bytes(row["key_hash"]), row["prefix"])
        grants = msgspec.json.decode(row["grants"], type=list[Grant]) if row["grants"] else []
        for group in row["groups"] or ():
            grants += self._group_roles.get(group, ())
        return Principal(row["kind"], row["id"], row["name"], tuple(dict.fromkeys(grants)), row["session_id"])
