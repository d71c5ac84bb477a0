"""Postgres ends every connection, over and over, while callers chat; then a key is revoked."""

import asyncio
import contextlib
import time
from collections import Counter

import asyncpg
import httpx2

from app.store.keys.key_format import key_prefix
from app.store.postgres.database import connect
from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until

CHAT = "/v1/chat/completions"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "Hello!"}]}
_CALLERS = 4
_EVERY_S = 0.02
_TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


async def chat_while_connections_end(service: Service, database_url: str, for_s: float) -> Counter[int]:
    """How often callers got each status: some with a known key, some each time with another one that is unknown."""
    end_s = time.monotonic() + for_s
    statuses: Counter[int] = Counter()

    async def chat(caller: httpx2.AsyncClient, number: int) -> None:
        sent = 0
        while time.monotonic() < end_s:
            unknown = {"authorization": f"Bearer nx-{number:04x}{sent:08x}-{'x' * 43}"} if number % 2 else {}
            statuses[(await caller.post(CHAT, json=REQUEST, headers=unknown)).status_code] += 1
            statuses[(await caller.get("/v1/usage", headers=unknown)).status_code] += 1
            sent += 1

    async with contextlib.AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(service.client()) for _ in range(_CALLERS)]
        await asyncio.gather(_terminate_connections(database_url, end_s), *(chat(caller, number) for number, caller in enumerate(callers)))
    return statuses


async def seconds_until_refused(service: Service, database_url: str) -> float:
    """Has a new key used by every worker, revokes it, and gives the seconds until none of them takes it any more."""
    key = await keys.create_key(database_url, f"revoked {time.time()}")
    async with contextlib.AsyncExitStack() as stack:
        callers = [
            await stack.enter_async_context(service.client(headers={"authorization": f"Bearer {key}"})) for _ in range(4 * _CALLERS)
        ]  # so many connections that each worker has some

        async def all_have(status: int) -> bool:
            answers = await asyncio.gather(*(caller.get("/v1/models") for caller in callers))
            return {answer.status_code for answer in answers} == {status}

        await wait_until(lambda: all_have(200))
        assert await keys.revoke_key(database_url, key_prefix(key) or "")
        revoked_s = time.monotonic()
        await wait_until(lambda: all_have(401))
        return time.monotonic() - revoked_s


async def terminate_all_connections(database_url: str) -> bool:
    """Returns whether Postgres ended any connections, once: those of gateways, the writer and all others."""
    try:
        connection = await connect(database_url)
    except (OSError, asyncpg.PostgresError):
        return False
    try:
        return await connection.fetchval(_TERMINATE) > 0
    except (OSError, asyncpg.PostgresError):
        return False
    finally:
        connection.terminate()


async def _terminate_connections(database_url: str, end_s: float) -> None:
    connection = await connect(database_url)
    try:
        while time.monotonic() < end_s:
            with contextlib.suppress(asyncpg.PostgresError):
                await connection.fetchval(_TERMINATE)
            await asyncio.sleep(_EVERY_S)
    finally:
        connection.terminate()
