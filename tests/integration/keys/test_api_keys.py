"""API keys: restrictions, expiry, rotation and revocation over HTTP; a worker's cache of keys; and the store of keys."""

import asyncio
import contextlib
import itertools
import json
import secrets
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.api.callers.authentication import authenticate
from app.domain.errors import InvalidKeyField
from app.settings import Settings
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.keys.index import KeyIndex
from app.store.keys.key_format import hash_key
from app.store.keys.log import log_path, read_log
from app.store.postgres.database import connect, create_database_engine
from app.store.teams import keys, shown_keys, teams
from app.store.teams.keys import KeyChanges
from providers.canonical.errors import CallerCredentialRequired
from tests.support.processes.postgres import Postgres
from tests.support.processes.postgres_proxy import proxy_to
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections, database_url
from tests.support.processes.wait_until import wait_until

CHAT = "/v1/chat/completions"
ANY_STATE = {"if-match": "*"}
HI: Any = {"model": "sandbox", "max_tokens": 1, "messages": [{"role": "user", "content": "Hello!"}]}


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@contextlib.asynccontextmanager
async def running_snapshot_cache(database: str, home: Path, name: str = "gateway-0") -> AsyncGenerator[SnapshotCache]:
    """A worker's cache, without the worker."""
    database_engine = create_database_engine(database)
    cache = SnapshotCache(Settings(home=home, database_url=database), database_engine, name)
    await cache.start()
    try:
        yield cache
    finally:
        await cache.stop()
        await database_engine.dispose()


async def execute_without_notification(database: str, *statements: str) -> None:
    """Changes that no NOTIFY announces."""
    connection = await connect(database)
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def find_and_hash(cache: SnapshotCache, key: str) -> bytes:
    assert await cache.keys.find(key) is not None and cache.keys.get_cached(hash_key(key)) is not None
    return hash_key(key)


async def wait_until_forgotten(cache: SnapshotCache, hash: bytes) -> None:
    """Takes two seconds at most, on a machine that is not busy."""
    await wait_until(lambda: cache.keys.get_cached(hash) is None, 30)


# --- over HTTP


async def test_key_secret_is_shown_once_and_its_metadata_until_revoked(service: Service, admin: httpx2.AsyncClient):
    ends = datetime.now(UTC) + timedelta(days=1)
    body = {"team": "shown once", "name": "n", "models": ["sandbox*"], "networks": ["127.0.0.0/8"], "expires_at": ends.isoformat()}
    made = await admin.post("/admin/v1/keys", json=body)
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store"), made.text
    key, prefix = made.json()["key"], made.json()["prefix"]
    assert key.startswith(prefix + "-") and datetime.fromisoformat(made.json()["expires_at"]) == ends
    shown = await admin.get(f"/admin/v1/keys/{prefix}")
    assert shown.json() == {name: value for name, value in made.json().items() if name != "key"} and key not in shown.text
    listed = (await admin.get("/admin/v1/keys", params={"team": "shown once"})).json()
    assert listed == {"data": [{**shown.json(), "usage": None}], "next": None}  # which was not requested
    async with service.client(headers={"x-api-key": key, "authorization": ""}) as client:
        assert (await client.post(CHAT, json=HI)).status_code == 200
    revoked = await admin.delete(f"/admin/v1/keys/{prefix}")
    assert revoked.status_code == 200 and revoked.json()["revoked_at"]
    for answer in (await admin.delete(f"/admin/v1/keys/{prefix}"), await admin.get("/admin/v1/keys/nx-000000000000")):
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_keys_are_listed_in_pages(admin: httpx2.AsyncClient, service: Service):
    made = [(await keys.create_key(database_url(service), "in pages"))[:15] for _ in range(3)]
    first = (await admin.get("/admin/v1/keys", params={"team": "in pages", "limit": 2})).json()
    rest = (await admin.get("/admin/v1/keys", params={"team": "in pages", "limit": 2, "after": first["next"]})).json()
    assert [row["prefix"] for row in [*first["data"], *rest["data"]]] == made and rest["next"] is None
    listed = ("keys", "list", "--team", "in pages", "--limit", "1", "--json")
    next = json.loads(service.run(*listed).stdout)["next"]
    page = json.loads(service.run(*listed, "--after", next).stdout)
    assert [row["prefix"] for row in page["keys"]] == [made[1]] and page["next"]


async def test_key_route_and_network_restrictions_apply_and_changes_reach_all_workers(service: Service, admin: httpx2.AsyncClient):
    made = (await admin.post("/admin/v1/keys", json={"team": "restricted", "routes": ["/v1/models*"]})).json()
    path = f"/admin/v1/keys/{made['prefix']}"
    async with connections(service, 6, made["key"]) as callers:

        async def response_statuses(path: str) -> set[int]:
            responses = (caller.post(path, json=HI) if path == CHAT else caller.get(path) for caller in callers)
            return {answer.status_code for answer in await asyncio.gather(*responses)}

        assert await response_statuses("/v1/models") == {200} and await response_statuses(CHAT) == {403}
        assert (await admin.patch(path, json={"routes": ["/v1/chat/completions"]}, headers=ANY_STATE)).status_code == 200
        assert await response_statuses(CHAT) == {200}
        assert await response_statuses("/v1/models") == {403}
        assert (await admin.patch(path, json={"routes": None, "networks": ["192.0.2.0/24"]}, headers=ANY_STATE)).json()["routes"] is None
        assert await response_statuses("/v1/models") == {403}
        error = (await callers[0].get("/v1/models")).json()["error"]
        assert (error["type"], "network" in error["message"]) == ("permission_error", True)
        forged = {"x-forwarded-for": "192.0.2.7"}
        assert (await callers[0].get("/v1/models", headers=forged)).status_code == 403, "no proxy is trusted here"
        changed = (await admin.patch(path, json={"networks": ["192.0.2.0/24", "127.0.0.1"]}, headers=ANY_STATE)).json()
        assert changed["networks"] == ["192.0.2.0/24", "127.0.0.1"] and changed["routes"] is None
        assert await response_statuses(CHAT) == {200}


async def test_route_restriction_matches_the_served_route_however_the_path_is_written(service: Service):
    restrictions: Any = {"admin": True, "routes": ["/v1/models", "/v1/models/s*"]}
    key = await keys.create_key(database_url(service), "routes", **restrictions)
    status_by_path: dict[str, int] = {}
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        for path in (
            *("/v1/models", "/v1/%6dodels", "/v1/models?a=/v1/limits", "/v1/models/sandbox", "/v1/models/%73andbox"),
            *("/v1/models/", "//v1/models", "/v1/models/x", "/v1/limits", "/v1/usage", "/admin/v1/keys", "/admin/v1/keys?/v1/models"),
            *("/v1/models/s/../../../admin/v1/keys", "/v1/models/s%2f..%2f..%2fadmin/v1/keys", "/v1/models/../limits"),
        ):
            status_by_path[path] = (await client.get(path)).status_code
        assert (await client.post("/v1/chat%2Fcompletions", json=HI)).status_code == 404
    assert list(status_by_path.values()) == [200] * 6 + [404] + [403] * 6 + [404, 403], status_by_path


async def test_duplicate_key_headers_are_refused(service: Service):
    requests = [("/v1/models", "GET"), ("/admin/v1/keys", "GET"), (CHAT, "POST")]
    async with service.keyless_client() as client:
        for (path, method), name in itertools.product(requests, ("authorization", "x-api-key")):
            headers = [(name, "Bearer nx-wrong"), (name, f"Bearer {service.admin_key}")]
            answer = await client.request(method, path, headers=headers)
            assert (answer.status_code, "several times" in answer.text or "2 times" in answer.text) == (400, True), answer.text


async def create_and_rotate(admin: httpx2.AsyncClient, overlap_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The old key and the new one."""
    old = (await admin.post("/admin/v1/keys", json={"team": "rotated", "name": "n", "routes": ["/v1/models*"]})).json()
    new = await admin.post(f"/admin/v1/keys/{old['prefix']}/rotate", json={"overlap_s": overlap_s})
    assert (new.status_code, new.headers["cache-control"]) == (201, "no-store")
    row = (await admin.get(f"/admin/v1/keys/{old['prefix']}")).json()
    assert row["replaced_by"] == new.json()["prefix"] and new.json()["name"] == "n"
    return old, new.json()


async def test_rotated_key_works_during_the_overlap(service: Service, admin: httpx2.AsyncClient):
    old, new = await create_and_rotate(admin, overlap_s=3600)
    async with connections(service, 6, old["key"]) as olds, connections(service, 6, new["key"]) as news:
        for caller in (*olds, *news):
            assert (await caller.get("/v1/models")).status_code == 200
            assert (await caller.post(CHAT, json=HI)).status_code == 403, "the new key may do what the old one may"


async def test_rotated_key_expires_at_the_end_of_the_overlap(service: Service, admin: httpx2.AsyncClient):
    old, new = await create_and_rotate(admin, overlap_s=1)
    async with connections(service, 6, old["key"]) as olds, connections(service, 6, new["key"]) as news:

        async def are_expired() -> bool:
            responses = await asyncio.gather(*(caller.get("/v1/models") for caller in olds))
            return all(response.status_code == 401 and "expired" in response.text for response in responses)

        await wait_until(are_expired)
        assert {response.status_code for response in await asyncio.gather(*(caller.get("/v1/models") for caller in news))} == {200}
    again = await admin.post(f"/admin/v1/keys/{old['prefix']}/rotate", json={"overlap_s": 0})
    assert again.status_code == 404, "an expired key cannot be rotated"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"{}", "team"),
        (b'{"team": ""}', "team"),
        (b'{"team": "t", "modles": []}', "modles"),
        (b'{"team": "t", "models": "all"}', "models"),
        (b'{"team": "t", "models": []}', "models"),
        (b'{"team": "t", "routes": ["/v1/chat/completion"]}', "routes"),
        (b'{"team": "t", "networks": ["10.0.0.1/8"]}', "networks"),
        (b'{"team": "t", "expires_at": "2001-01-01T00:00:00Z"}', "expires_at"),
        (b'{"team": "t", "expires_at": "tomorrow"}', "expires_at"),
        (b'{"team": "t", "content": "ful"}', "content"),
        (b'{"team": ' + b"[" * 90_000 + b"]" * 90_000 + b"}", "team"),
        (b'{"team": "t", "expires_at": "9999-12-31T23:59:59-12:00"}', "expires_at"),
    ],
)
async def test_invalid_key_creation_is_refused(admin: httpx2.AsyncClient, body: bytes, param: str | None):
    answer = await admin.post("/admin/v1/keys", content=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param), error
    assert param != "content" or "full, masked, redacted, none" in error["message"]


async def test_teams_are_listed_and_changed_by_admins_only(service: Service, admin: httpx2.AsyncClient, client: httpx2.AsyncClient):
    assert (await client.get("/admin/v1/teams")).status_code == (await client.post("/admin/v1/keys", json={})).status_code == 403
    changed = await admin.put("/admin/v1/teams/a%2Fb", json={"content": "none"})
    assert (changed.status_code, changed.json()["name"], changed.json()["content"]) == (201, "a/b", "none")
    await keys.create_key(database_url(service), "a/b")
    revoked = await keys.create_key(database_url(service), "a/b")
    await keys.revoke_key(database_url(service), revoked)
    (row,) = (await admin.get("/admin/v1/teams", params={"search": "a/b"})).json()["data"]
    assert (row["content"], row["keys"]) == ("none", 1)
    assert (await admin.put("/admin/v1/teams/a%2Fb", json={"content": "some"})).status_code == 400


async def test_flood_of_unknown_keys_neither_fails_nor_delays_valid_callers(service: Service):
    made = [await keys.create_key(database_url(service), "newcomers") for _ in range(3)]
    over = asyncio.Event()
    refused = 0

    async def flood() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.url.rpartition(":")[2]))
        while not over.is_set():
            unknown_keys = [f"nx-{secrets.token_hex(6)}-{secrets.token_urlsafe(32)}" for _ in range(8)]
            for key in unknown_keys:
                writer.write(f"POST {CHAT} HTTP/1.1\r\nhost: n\r\nauthorization: Bearer {key}\r\ncontent-length: 0\r\n\r\n".encode())
            for _ in unknown_keys:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 401"), head
                await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
                refused += 1
        writer.close()

    async def send_with_new_keys() -> list[float]:
        """Returns how many seconds each request waited. A lookup that takes three seconds fails the request."""
        waited: list[float] = []
        for number, key in enumerate(made, 1):
            await wait_until(lambda number=number: refused > 700 * number)
            async with service.client(headers={"authorization": f"Bearer {key}"}) as newcomer:
                began = time.monotonic()
                assert (await newcomer.post(CHAT, json=HI)).status_code == 200
                waited.append(time.monotonic() - began)
        return waited

    async def send_with_a_known_key() -> set[int]:
        found_statuses: set[int] = set()
        async with connections(service, 4) as callers:
            while not over.is_set():
                found_statuses |= {answer.status_code for answer in await asyncio.gather(*(caller.get("/v1/models") for caller in callers))}
        return found_statuses

    # On a busy machine more would keep this process, which is the callers too, from sending a request within the gateway's timeout.
    flooding = [asyncio.create_task(flood()) for _ in range(100)]
    known_callers = asyncio.create_task(send_with_a_known_key())
    try:
        waited = await send_with_new_keys()
    finally:
        over.set()
        await asyncio.gather(*flooding)
    assert await known_callers == {200} and refused > 2000
    assert max(waited) < 20, waited


# --- a worker's cache, and changes with and without a notification


async def test_key_change_is_seen_at_once_with_a_notification(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.store.configuration.snapshot_cache._CHECK_EVERY_S", 3600.0)  # so it is not seen by polling
    revoked, valid = [await keys.create_key(database, "t") for _ in range(2)]
    async with running_snapshot_cache(database, tmp_path) as cache:
        revoked_hash, valid_hash = await find_and_hash(cache, revoked), await find_and_hash(cache, valid)
        assert await keys.revoke_key(database, revoked)
        await wait_until_forgotten(cache, revoked_hash)
        assert cache.keys.get_cached(valid_hash) is not None


async def test_key_change_is_seen_within_two_seconds_without_a_notification(database: str, tmp_path: Path):
    made = [await keys.create_key(database, team) for team in ("t", "other", "t")]
    async with running_snapshot_cache(database, tmp_path) as cache:
        revoked, of_team, valid = [await find_and_hash(cache, key) for key in made]
        await execute_without_notification(
            database,
            f"UPDATE keys SET revoked_at = now() WHERE prefix = '{made[0].split('-')[1]}'",
            "UPDATE teams SET content = 'none' WHERE name = 'other'",
        )
        await asyncio.gather(wait_until_forgotten(cache, revoked), wait_until_forgotten(cache, of_team))
        assert cache.keys.get_cached(valid) is not None, "and nothing else is looked up again"
        caller = await cache.keys.find(made[1])
        assert caller is not None and caller.content == "none" and await cache.keys.find(made[0]) is None
        await execute_without_notification(database, "DELETE FROM keys")
        await asyncio.gather(wait_until_forgotten(cache, of_team), wait_until_forgotten(cache, valid))


async def test_stalled_postgres_connections_delay_a_revocation_by_less_than_two_seconds(database: str, tmp_path: Path):
    """Queries on stalled connections would wait forever without a timeout of their own."""
    async with proxy_to(database) as proxy:
        revoked, not_cached = [await keys.create_key(database, "t") for _ in range(2)]
        async with running_snapshot_cache(proxy.database_url, tmp_path) as cache:
            hash = await find_and_hash(cache, revoked)
            assert proxy.stall_connections() >= 3, "one that listens, one for keys, and the pool's"
            await keys.revoke_key(database, revoked)
            await asyncio.gather(wait_until_forgotten(cache, hash), find_and_hash(cache, not_cached))
            assert cache.connected
            proxy.stall_connections()
            stopping_at = time.monotonic()
        assert time.monotonic() - stopping_at < 30, "nor does stopping hang"


async def test_key_changes_during_worker_downtime_are_seen_after_restart(database: str, tmp_path: Path):
    revoked, changed, valid = [await keys.create_key(database, "t") for _ in range(3)]
    async with running_snapshot_cache(database, tmp_path) as cache:
        for key in (revoked, changed, valid):
            await find_and_hash(cache, key)
    await keys.revoke_key(database, revoked)
    await keys.change_key(database, changed, KeyChanges(models=("m",)))
    async with running_snapshot_cache(database, tmp_path) as cache:
        assert [cache.keys.get_cached(hash_key(key)) is not None for key in (revoked, changed, valid)] == [False, False, True]


async def test_restored_older_database_is_believed(database: str, tmp_path: Path):
    key = await keys.create_key(database, "t")
    async with running_snapshot_cache(database, tmp_path) as cache:
        hash = await find_and_hash(cache, key)
        await execute_without_notification(
            database,
            "ALTER TABLE keys DISABLE TRIGGER keys_sweep",
            "DELETE FROM keys",
            "UPDATE keys_version SET version = 0",
        )
        await wait_until_forgotten(cache, hash)


async def test_keys_expire_by_the_postgres_clock(database: str, tmp_path: Path):
    name = database.partition("?")[0].rpartition("/")[2]
    later = "SELECT pg_catalog.clock_timestamp() + interval ''1 hour''"
    await execute_without_notification(
        database,
        f"CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS '{later}'",
        f"ALTER DATABASE {name} SET search_path = public, pg_catalog",
    )
    expired, valid = [
        await keys.create_key(database, "t", expires_at=datetime.now(UTC) + timedelta(minutes=minutes)) for minutes in (55, 65)
    ]
    async with running_snapshot_cache(database, tmp_path) as cache:
        with pytest.raises(CallerCredentialRequired, match="expired"):
            await authenticate(cache, {b"x-api-key": expired.encode()}, "/v1/models", None, [])
        assert (await authenticate(cache, {b"x-api-key": valid.encode()}, "/v1/models", None, [])).team == "t"


async def test_known_keys_stay_usable_without_postgres_and_revocations_arrive_later(postgres: Postgres, tmp_path: Path):
    await postgres.execute("CREATE DATABASE interrupted TEMPLATE migrated")
    url = postgres.database_url("interrupted")
    ends = datetime.now(UTC) + timedelta(hours=1)
    lasting, expiring, not_cached = [await keys.create_key(url, "t", expires_at=moment) for moment in (None, ends, None)]
    async with contextlib.AsyncExitStack() as stack:
        cache = await stack.enter_async_context(running_snapshot_cache(url, tmp_path))
        assert cache.workers_alive == 1
        other = await stack.enter_async_context(running_snapshot_cache(url, tmp_path, "gateway-1"))
        assert other.workers_alive == 2
        await find_and_hash(cache, lasting)
        await find_and_hash(cache, expiring)
        await wait_until(lambda: hash_key(expiring) in read_log(log_path(tmp_path / "directory", "gateway-0")).callers)
        await execute_without_notification(postgres.url, "ALTER DATABASE interrupted ALLOW_CONNECTIONS false")
        await execute_without_notification(
            postgres.url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'interrupted'"
        )
        await wait_until(lambda: not cache.connected and not other.connected)
        known = cache.keys.get_cached(hash_key(expiring))
        assert known is not None and known.expires_s == ends.timestamp() and cache.keys.get_cached(hash_key(lasting)) is not None
        found = await asyncio.gather(*(other.keys.find(lasting) for _ in range(20)))
        assert found == [cache.keys.get_cached(hash_key(lasting))] * 20, "another worker of this machine knows it"
        with pytest.raises(Exception, match=r"not currently accepting|closed"):
            await cache.keys.find(not_cached)
        assert other.workers_alive == 2
        await execute_without_notification(postgres.url, "ALTER DATABASE interrupted ALLOW_CONNECTIONS true")
        await keys.revoke_key(url, lasting)
        await wait_until_forgotten(cache, hash_key(lasting))
        await wait_until_forgotten(other, hash_key(lasting))


# --- the key index


async def test_malformed_key_is_refused_without_a_database_query(tmp_path: Path):
    index = KeyIndex("postgresql://nobody@127.0.0.1:9/none", tmp_path, "w")
    for malformed in ("", "nx-wrong", "nx-0123456789AB-" + "k" * 43, "nx-0123456789ab-" + "k" * 42, "sk-" + "a" * 60, "é" * 59):
        assert await index.find(malformed) is None
    await index.close()


async def test_valid_prefix_with_wrong_secret_is_refused(database: str, tmp_path: Path):
    key = await keys.create_key(database, "t")
    index = KeyIndex(database, tmp_path, "w")
    assert await index.find(key[:-2] + ("AA" if not key.endswith("AA") else "BB")) is None
    assert await index.find(key) is not None
    await index.close()


async def test_flood_of_unknown_keys_neither_delays_lookups_nor_fills_the_index(database: str, tmp_path: Path):
    """A lookup that takes three seconds fails."""
    valid = [await keys.create_key(database, "t") for _ in range(3)]
    index = KeyIndex(database, tmp_path, "w")
    await index.find(valid[0])
    waited: list[float] = []
    refused = 0

    async def flood() -> None:
        nonlocal refused
        while len(waited) < 2:
            unknown = (f"nx-{secrets.token_hex(6)}-{secrets.token_urlsafe(32)}" for _ in range(1000))
            assert not any(await asyncio.gather(*(index.find(key) for key in unknown)))
            refused += 1000

    async def find_valid_keys() -> None:
        for number, key in enumerate(valid[1:], 1):
            await wait_until(lambda number=number: refused >= 1000 * number)
            began = time.monotonic()
            assert await index.find(key) is not None
            waited.append(time.monotonic() - began)

    await asyncio.gather(flood(), find_valid_keys())
    assert refused > 1000 and max(waited) < 10 and len(index) == 3
    assert len(index._unknown) <= 10_000 and not index._pending  # pyright: ignore[reportPrivateUsage]
    await index.close()


async def test_concurrent_lookups_of_one_key_share_one_query(database: str, tmp_path: Path):
    key = await keys.create_key(database, "t")
    index = KeyIndex(database, tmp_path, "w")
    found = await asyncio.gather(*(index.find(key) for _ in range(50)))
    assert len({id(caller) for caller in found}) == 1 and found[0] is index.get_cached(hash_key(key))
    await index.close()


async def test_key_index_evicts_least_recently_used_keys(database: str, tmp_path: Path):
    made = [await keys.create_key(database, "t") for _ in range(12)]
    index = KeyIndex(database, tmp_path, "w", max_keys=6)
    for key in made:
        await index.find(key)
        assert index.get_cached(hash_key(made[0])) is not None, "it is in constant use"
        assert len(index) <= 7
    await index.close()
    kept = read_log(tmp_path / "keys-w.log").callers
    # peek(), as get_cached() counts as a use, and so would evict others.
    assert set(kept) == {hash_key(key) for key in made if index._callers.peek(hash_key(key))}  # pyright: ignore[reportPrivateUsage]
    assert len(kept) == len(index) <= 7
    again = KeyIndex(database, tmp_path, "w", max_keys=6)
    assert again.get_cached(hash_key(made[0])) is not None and again.get_cached(hash_key(made[-1])) is not None
    await again.close()


# --- the store


async def test_rotated_key_inherits_restrictions_and_expiry(database: str):
    ends = datetime.now(UTC) + timedelta(hours=1)
    restrictions: Any = {"models": ["m*"], "routes": ["/v1/*"], "networks": ["10.0.0.0/8"], "expires_at": ends}
    old = await keys.create_key(database, "t", name="n", admin=True, **restrictions)
    new = await keys.rotate_key(database, old, overlap_s=7200)
    assert new is not None and await keys.rotate_key(database, "nx-000000000000", overlap_s=0) is None
    before, after = await shown_keys.list_keys(database, team="t")
    assert before.expires_at == after.expires_at == ends.isoformat(), "an overlap prolongs nothing"
    assert (after.name, after.admin, after.models, after.routes, after.networks) == ("n", True, ["m*"], ["/v1/*"], ["10.0.0.0/8"])
    assert before.replaced_by == after.prefix == new.split("-")[1]
    with pytest.raises(InvalidKeyField):
        await keys.rotate_key(database, new, overlap_s=-1)


async def test_key_change_leaves_unnamed_fields(database: str):
    key = await keys.create_key(database, "t", models=["m"], networks=["10.0.0.0/8"])
    assert await keys.change_key(database, key[:15], KeyChanges(networks=None, name="new"))
    assert await keys.change_key(database, key[:15], KeyChanges())
    (row,) = await shown_keys.list_keys(database)
    assert (row.name, row.models, row.networks) == ("new", ["m"], None)
    assert await keys.revoke_key(database, key) and not await keys.change_key(database, key, KeyChanges(name="x"))
    with pytest.raises(InvalidKeyField):
        await keys.change_key(database, key, KeyChanges(routes=["nowhere"]))


async def test_concurrent_key_and_team_changes_are_serialized(database: str):
    made = [keys.create_key(database, f"t{number % 2}", content="none") for number in range(6)]
    await asyncio.gather(*made, *(teams.set_team(database, f"t{number % 2}", content="redacted") for number in range(6)))
    assert sum(row.keys for row in await teams.list_teams(database)) == 6
