"""An answer of the admin API to a change holds: every gateway process serves it, or the answer names those that do not."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any

import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import connections, database_url, paused_processes
from tests.support.processes.wait_until import wait_until

WAIT_S = 3.0
CALLERS = 12  # of two workers, each gets some
ROUNDS = 8


@pytest.fixture(scope="module")
def own_service() -> Generator[Service]:
    """A service whose workers may be paused."""
    running = services.start(workers=2, apply_wait_s=WAIT_S)
    yield running
    services.stop(running)


@pytest.fixture(autouse=True)
async def both_current(own_service: Service) -> None:
    """It is ready when its first worker is."""
    async with own_service.admin_client() as admin:

        async def is_met() -> bool:
            response = await admin.get("/admin/v1/workers")
            return [each["current"] for each in response.json()["data"]] == [True, True]

        await wait_until(is_met)


@pytest.fixture
async def admin(own_service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with own_service.admin_client() as client:
        yield client


@pytest.fixture
async def callers(own_service: Service) -> AsyncGenerator[Sequence[httpx2.AsyncClient]]:
    async with connections(own_service, CALLERS) as callers:
        yield callers


@contextlib.asynccontextmanager
async def one_paused(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    """Meanwhile the second worker hangs. The client's connections come from then, so the first one serves them."""
    with paused_processes(service.pid("gateway-1")):
        async with service.admin_client() as admin:
            yield admin


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def model_of(name: str = "sandbox") -> dict[str, Any]:
    return {"targets": [{"provider": "sandbox", "model": name}]}


async def chat(client: httpx2.AsyncClient, model: str, key: str | None = None) -> int:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    body = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
    return (await client.post("/v1/chat/completions", json=body, headers=headers)).status_code


async def ok(response: httpx2.Response, applied: str | None = "2/2") -> Any:
    assert response.is_success, response.text
    assert response.headers.get("x-narthex-applied") == applied, response.headers
    return response.json()


async def all_chat(callers: Sequence[httpx2.AsyncClient], model: str, key: str | None = None) -> set[int]:
    return set(await asyncio.gather(*(chat(caller, model, key) for caller in callers)))


async def test_a_new_model_is_served_by_every_worker_once_the_answer_is_there(
    admin: httpx2.AsyncClient, callers: Sequence[httpx2.AsyncClient]
) -> None:
    for _ in range(ROUNDS):
        name = unique("model")
        await ok(await admin.put(f"/admin/v1/models/{name}", json=model_of()))
        assert await all_chat(callers, name) == {200}
        await ok(await admin.delete(f"/admin/v1/models/{name}", headers={"if-match": "*"}))
        assert await all_chat(callers, name) == {404}


async def test_a_revoked_key_is_refused_by_every_worker_once_the_answer_is_there(
    admin: httpx2.AsyncClient, callers: Sequence[httpx2.AsyncClient]
) -> None:
    for _ in range(ROUNDS):
        made = await ok(await admin.post("/admin/v1/keys", json={"team": "revoked at once"}))
        assert await all_chat(callers, "sandbox", made["key"]) == {200}
        await ok(await admin.delete(f"/admin/v1/keys/{made['prefix']}"))
        assert await all_chat(callers, "sandbox", made["key"]) == {401}


async def test_what_keys_and_teams_are_held_to_is_in_force_once_the_answer_is_there(
    admin: httpx2.AsyncClient, callers: Sequence[httpx2.AsyncClient]
) -> None:
    team = unique("team")
    await ok(await admin.put(f"/admin/v1/teams/{team}", json={}))
    made = await ok(await admin.post("/admin/v1/keys", json={"team": team}))
    for _ in range(ROUNDS):
        assert await all_chat(callers, "sandbox", made["key"]) == {200}
        await ok(await admin.patch(f"/admin/v1/keys/{made['prefix']}", json={"models": ["none"]}, headers={"if-match": "*"}))
        assert 200 not in await all_chat(callers, "sandbox", made["key"])
        await ok(await admin.patch(f"/admin/v1/keys/{made['prefix']}", json={"models": None}, headers={"if-match": "*"}))
        assert await all_chat(callers, "sandbox", made["key"]) == {200}
        await ok(await admin.patch(f"/admin/v1/teams/{team}", json={"models": ["none"]}, headers={"if-match": "*"}))
        assert 200 not in await all_chat(callers, "sandbox", made["key"])
        await ok(await admin.patch(f"/admin/v1/teams/{team}", json={"models": None}, headers={"if-match": "*"}))
    rotated = await ok(await admin.post(f"/admin/v1/keys/{made['prefix']}/rotate", json={"overlap_s": 0}))
    assert await all_chat(callers, "sandbox", made["key"]) == {401}
    assert await all_chat(callers, "sandbox", rotated["key"]) == {200}


async def test_only_changes_of_what_workers_serve_wait_and_have_the_header(admin: httpx2.AsyncClient) -> None:
    account = unique("account")
    body = {"name": account, "roles": [{"role": "viewer"}]}
    await ok(await admin.post("/admin/v1/service-accounts", json=body), None)
    await ok(await admin.delete(f"/admin/v1/service-accounts/{account}", headers={"if-match": "*"}), None)
    name = unique("model")
    await ok(await admin.put(f"/admin/v1/models/{name}", json=model_of(), params={"dry_run": "true"}), None)
    await ok(await admin.put(f"/admin/v1/models/{name}", json=model_of()))
    await ok(await admin.put(f"/admin/v1/models/{name}", json=model_of(), headers={"if-match": "*"}), None)  # nothing differs
    credential = unique("credential")
    await ok(await admin.put(f"/admin/v1/credentials/{credential}", json={"value": "sk-none"}))
    await ok(await admin.delete(f"/admin/v1/credentials/{credential}"))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("wait=maybe", "`wait` must be true or false."),
        ("wait=", "`wait` is empty"),
        ("wait=true&wait=false", "`wait` appears several times"),
    ],
    ids=["neither", "empty", "twice"],
)
async def test_an_invalid_wait_is_refused(admin: httpx2.AsyncClient, query: str, message: str) -> None:
    response = await admin.post(f"/admin/v1/teams?{query}", json={"name": unique("team")})
    assert response.status_code == 400 and message in response.json()["error"]["message"]


async def test_a_read_takes_no_wait(admin: httpx2.AsyncClient) -> None:
    assert (await admin.get("/admin/v1/models?wait=false")).status_code == 400


async def test_a_worker_that_hangs_is_named_after_the_bound(own_service: Service) -> None:
    name = unique("model")
    async with one_paused(own_service) as admin:
        response, took_s = await timed(admin.put(f"/admin/v1/models/{name}", json=model_of()))
        await ok(response, "1/2")
        assert took_s >= WAIT_S - 0.5
        (behind,) = response.headers["x-narthex-not-applied"].split(", ")
        listed = (await admin.get("/admin/v1/workers")).json()["data"]
        assert {each["id"]: each["current"] for each in listed} == {behind: False, behind.removesuffix("1") + "0": True}
        assert behind.endswith(":gateway-1")


async def test_without_a_wait_a_change_is_answered_at_once_and_a_revocation_waits(own_service: Service) -> None:
    no_wait = {"wait": "false"}
    async with own_service.admin_client() as before:
        key = await ok(await before.post("/admin/v1/keys", json={"team": "not waited for"}))
    async with one_paused(own_service) as admin:
        changed, changed_s = await timed(admin.put(f"/admin/v1/models/{unique('model')}", json=model_of(), params=no_wait))
        made, made_s = await timed(admin.post("/admin/v1/keys", json={"team": "not waited for"}, params=no_wait))
        assert max(changed_s, made_s) < WAIT_S
        for response in (changed, made):
            assert response.is_success and response.headers["x-narthex-applied"] in ("0/2", "1/2"), response.headers
        revoked, revoked_s = await timed(admin.delete(f"/admin/v1/keys/{key['prefix']}", params=no_wait))
        await ok(revoked, "1/2")
        assert revoked_s >= WAIT_S - 0.5


async def test_a_repeated_request_waits_for_the_change_of_the_first(own_service: Service) -> None:
    name, headers = unique("model"), {"idempotency-key": uuid.uuid4().hex}
    async with one_paused(own_service) as admin:
        first = await admin.put(f"/admin/v1/models/{name}", json=model_of(), headers=headers, params={"wait": "false"})
        assert first.status_code == 201, first.text
        await ok(again := await admin.put(f"/admin/v1/models/{name}", json=model_of(), headers=headers), "1/2")
        assert again.headers["idempotent-replayed"] == "true"
    async with own_service.admin_client() as admin:
        await ok(again := await admin.put(f"/admin/v1/models/{name}", json=model_of(), headers=headers))
        assert again.headers["idempotent-replayed"] == "true" and not any(name.startswith("-") for name in again.headers)


async def test_a_worker_that_is_gone_holds_up_nobody_and_one_of_an_earlier_version_is_named(
    own_service: Service, admin: httpx2.AsyncClient
) -> None:
    made = await ok(await admin.post("/admin/v1/keys", json={"team": "gone"}))
    connection = await connect(database_url(own_service))
    await connection.execute("INSERT INTO workers (id, version, seen_at) VALUES ('gone', 0, now() - interval '40 seconds')")
    await ok(await admin.put(f"/admin/v1/models/{unique('model')}", json=model_of()))
    # Its place has what no header may have.
    await connection.execute(
        "INSERT INTO workers (id, version, seen_at) VALUES ($1, 999999, now() + interval '1 hour')", "an earlier:/é\n:w"
    )
    try:
        revoked, took_s = await timed(admin.delete(f"/admin/v1/keys/{made['prefix']}"))
        await ok(revoked, "2/3")
        assert revoked.headers["x-narthex-not-applied"] == "an earlier:/%C3%A9%0A:w" and took_s < WAIT_S
    finally:
        await connection.execute("DELETE FROM workers WHERE version IN (0, 999999)")
        await connection.close()


async def test_commands_say_who_does_not_serve_their_change(own_service: Service) -> None:
    key = own_service.run("keys", "create", "--team", "commands", "--quiet")
    assert (key.returncode, key.stderr) == (0, ""), key.stderr
    async with one_paused(own_service):
        applied = own_service.apply(f'[models."{unique("model")}"]\ntargets = [{{ provider = "sandbox", model = "sandbox" }}]\n')
        assert "1 of 2 workers serve it after 3 s, and these do not:" in applied and ":gateway-1." in applied
        revoked = own_service.run("keys", "revoke", key.stdout.strip()[:15], "--yes")
        assert revoked.returncode == 0 and revoked.stdout == "Revoked.\n"
        assert "Warning: the change is stored, but 1 of 2 workers serve it" in revoked.stderr and ":gateway-1." in revoked.stderr


async def test_a_command_ends_when_every_worker_goes_by_its_change(own_service: Service, callers: Sequence[httpx2.AsyncClient]) -> None:
    created = own_service.run("keys", "create", "--team", "commands", "--quiet").stdout.strip()
    assert await all_chat(callers, "sandbox", created) == {200}
    revoked = own_service.run("keys", "revoke", created[:15], "--yes")
    assert (revoked.returncode, revoked.stderr) == (0, "")
    assert await all_chat(callers, "sandbox", created) == {401}


async def test_many_changes_at_once_are_all_served(admin: httpx2.AsyncClient, callers: Sequence[httpx2.AsyncClient]) -> None:
    async def change_and_use(number: int) -> Mapping[str, Any]:
        name = unique("model")
        response = await admin.put(f"/admin/v1/models/{name}", json=model_of())
        return {"applied": response.headers.get("x-narthex-applied"), "status": await chat(callers[number % CALLERS], name)}

    assert await asyncio.gather(*(change_and_use(number) for number in range(20))) == [{"applied": "2/2", "status": 200}] * 20


async def timed(request: Any) -> tuple[httpx2.Response, float]:
    began_s = time.monotonic()
    return await request, time.monotonic() - began_s
