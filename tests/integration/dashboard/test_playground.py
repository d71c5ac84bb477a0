"""The playground's route: a chat of somebody who is signed in, counted, limited and recorded as one of the key in whose name it is."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.integration.dashboard.test_own_key import Signed, sign_in
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

PATH = "/admin/v1/playground/chat/completions"
CHAT = {"model": "sandbox", "messages": [{"role": "user", "content": "Try this."}], "max_tokens": 8}


@pytest.fixture
async def admin(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.admin_client() as client:
        yield client


@pytest.fixture
async def browser(service: Service) -> AsyncGenerator[httpx2.AsyncClient]:
    async with service.keyless_client() as client:
        yield client


@pytest.fixture
async def signed(service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient) -> Signed:
    return await sign_in(service, admin, browser, "players", models=["sandbox", "sandbox-dies", "scripted"])


async def play(service: Service, browser: httpx2.AsyncClient, body: dict[str, Any] | None = None, **headers: str) -> httpx2.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await browser.post(PATH, json=CHAT | (body or {}), headers={"origin": service.url, **named})


async def test_streams_with_usage_and_cost_and_is_recorded_as_the_keys(signed: Signed, service: Service) -> None:
    body = {"stream": True, "stream_options": {"include_usage": True}}
    response = await play(service, signed.browser, body, x_narthex_cost="true")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    usage = next(chunk["usage"] for chunk in chunks if chunk.get("usage"))
    assert usage["completion_tokens"] == 8 and "narthex_cost_usd" in usage
    record = await service.wait_for_record(response.headers["x-narthex-inference-id"])
    assert (record["key"], record["team"], record["origin"]) == (signed.created["prefix"], "players", "playground")
    own = (await signed.browser.get("/admin/v1/own/inferences")).json()["data"]
    assert [each["id"] for each in own] == [record["id"]]


async def test_pages_of_other_sites_cannot_play(signed: Signed, service: Service) -> None:
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {}):
        refused = await signed.browser.post(PATH, json=CHAT, headers=headers)
        assert refused.status_code == 403, headers
    assert (await signed.browser.post(PATH, json=CHAT, headers={"sec-fetch-site": "same-origin"})).status_code == 200
    rebound = {"host": "rebound.example", "origin": "http://rebound.example"}
    cookie = f"narthex_session={signed.browser.cookies['narthex_session']}"
    assert (await signed.browser.post(PATH, json=CHAT, headers={**rebound, "cookie": cookie})).status_code == 401


async def test_models_routes_and_limits_of_the_key_hold(
    signed: Signed, service: Service, admin: httpx2.AsyncClient, browser: httpx2.AsyncClient
) -> None:
    refused = await play(service, signed.browser, {"model": "sandbox-slow"})
    assert refused.status_code == 403 and "sandbox-slow" in refused.text
    limit = {"scope": {"key": signed.created["prefix"]}, "resource": "requests", "amount": 1, "per": "day", "name": "one play"}
    assert (await admin.post("/admin/v1/limits", json=limit)).status_code == 201
    assert (await play(service, signed.browser)).status_code == 200
    over = await play(service, signed.browser)
    assert over.status_code == 429 and "retry-after" in over.headers and over.json()["error"]["details"]["rule"] == "one play"
    async with service.client(headers={"authorization": f"Bearer {signed.created['key']}"}) as client:
        assert (await client.post("/v1/chat/completions", json=CHAT)).status_code == 429, "they are one account"
    async with service.keyless_client() as other:
        await sign_in(service, admin, other, "players", routes=["/v1/models"])
        assert (await play(service, other)).status_code == 403


async def test_session_that_ended_plays_no_more(signed: Signed, service: Service, admin: httpx2.AsyncClient) -> None:
    assert (await admin.delete(f"/admin/v1/keys/{signed.created['prefix']}")).status_code == 200
    assert (await play(service, signed.browser)).status_code == 401
    async with service.keyless_client() as nobody:
        assert (await play(service, nobody)).status_code == 401


async def test_admin_plays_in_the_name_of_a_key_and_the_audit_log_says_so(
    signed: Signed, service: Service, admin: httpx2.AsyncClient
) -> None:
    prefix = signed.created["prefix"]
    response = await admin.post(PATH, json=CHAT, headers={"x-narthex-key": prefix})
    assert response.status_code == 200, response.text
    id = response.headers["x-narthex-inference-id"]
    record = await service.wait_for_record(id)
    assert (record["key"], record["origin"]) == (prefix, "playground")
    [event] = (await admin.get("/admin/v1/audit", params={"name": prefix, "action": "use"})).json()["data"]
    assert (event["team"], event["after"]["inference"]) == ("players", id)
    assert event["actor"]["id"] == service.admin_key[: len(prefix)]
    refused = await admin.post(PATH, json=CHAT | {"model": "sandbox-slow"}, headers={"x-narthex-key": prefix})
    assert refused.status_code == 403, "the key's restrictions hold, not the admin's"
    own = await admin.post(PATH, json=CHAT)
    assert (await service.wait_for_record(own.headers["x-narthex-inference-id"]))["key"] == service.admin_key[: len(prefix)]


async def test_engine_gets_neither_the_session_nor_the_keys_name(signed: Signed, service: Service, engine: ScriptedEngine) -> None:
    await play(service, signed.browser, {"model": "scripted"}, x_narthex_key=signed.created["prefix"])
    sent = engine.requests[-1]
    assert not {"cookie", "origin", "x-narthex-key", "referer"} & {name.lower() for name in sent.headers}
    assert signed.browser.cookies["narthex_session"] not in str(sent.headers)


async def test_stopping_settles_and_records_what_came(signed: Signed, service: Service) -> None:
    body = CHAT | {"model": "sandbox", "stream": True, "max_tokens": 4000}
    async with signed.browser.stream("POST", PATH, json=body, headers={"origin": service.url}) as response:
        assert response.status_code == 200
        id = response.headers["x-narthex-inference-id"]
        async for _ in response.aiter_bytes():
            break
    record = await asyncio.wait_for(service.wait_for_record(id), 60)
    assert record["outcome"] in ("disconnected", "answered") and record["origin"] == "playground"


async def test_playing_takes_part_in_no_experiment(signed: Signed, service: Service, admin: httpx2.AsyncClient) -> None:
    service.apply(
        '[functions.played-function]\ntype = "chat"\n[functions.played-function.variants.a]\nmodel = "sandbox"\n'
        '[functions.played-function.variants.b]\nmodel = "sandbox"\n[functions.played-function.experiment]\nunit = "episode"\n'
        'status = "running"\narms = { a = 0.5, b = 0.5 }\n'
    )
    created = (await admin.post("/admin/v1/keys", json={"team": "players"})).json()
    response = await admin.post(PATH, json=CHAT | {"model": "played-function"}, headers={"x-narthex-key": created["prefix"]})
    assert response.status_code == 200, response.text
    record = await service.wait_for_record(response.headers["x-narthex-inference-id"])
    assert (record["function"], record["experiment"]) == ("played-function", None) and record["variant"] in ("a", "b")
