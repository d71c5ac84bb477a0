"""Limits over HTTP: headers say what remains, refusals say why and for how long, and only what was used is charged."""

import asyncio
import time
from typing import Any

import httpx2
import openai
import pytest

from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import HELLO, ReceivedRequest, ScriptedEngine, chunk, stream_script

HI: Any = [{"role": "user", "content": "Hello!"}]
USED = 5  # tokens of each exchange, as the scripted engine reports them

RULES = """
[models]
only-backed = { targets = [{ provider = "nowhere", model = "x" }], fallbacks = ["only-backup", "only-last"] }
only-unpriced = { targets = [{ provider = "second", model = "nobody-priced" }] }
only-requests = TARGET
only-tokens = TARGET
only-slots = TARGET
only-backup = TARGET
only-last = TARGET
only-priced = TARGET
only-tagged = TARGET
only-dry = TARGET
only-month = TARGET

[[limits]]
name = "two a second"
scope = { model = "only-requests" }
resource = "requests"
amount = 2
per = "second"

[[limits]]
name = "a thousand tokens an hour"
scope = { model = "only-tokens", key = "each" }
resource = "tokens"
amount = 1000
per = "hour"

[[limits]]
name = "one at a time"
scope = { model = "only-slots" }
resource = "concurrency"
amount = 1

[[limits]]
name = "the backup, once an hour"
scope = { model = "only-backup" }
resource = "requests"
amount = 1
per = "hour"

[[limits]]
name = "a cent a day"
scope = { model = "only-priced" }
resource = "cost_usd"
amount = 0.01
per = "day"

[[limits]]
name = "a cent a day of unpriced models"
scope = { model = "only-unpriced" }
resource = "cost_usd"
amount = 0.01
per = "day"

[[limits]]
name = "a tenant's"
scope = { "tag:tenant" = "each", model = "only-tagged" }
resource = "requests"
amount = 1
per = "hour"

[[limits]]
name = "a dry run"
scope = { model = "only-dry" }
resource = "requests"
amount = 1
per = "hour"
dry_run = true

[[limits]]
name = "a month of requests"
scope = { model = "only-month" }
resource = "requests"
amount = 2
per = "month"

[[prices]]
provider = "first"
model = "engine-model"
input = 10
output = 1000
""".replace("TARGET", '{ targets = [{ provider = "first", model = "engine-model" }] }')


@pytest.fixture(scope="module", autouse=True)
def rules(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    """Every rule applies to a model of its own, so that no other test meets it."""
    service.apply(RULES)


async def send_chat(client: httpx2.AsyncClient, model: str, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
    return await client.post("/v1/chat/completions", json={"model": model, "messages": HI, **more}, headers=headers or {})


def count_chat_requests(engine: ScriptedEngine) -> int:
    """Returns how many chats the engine received, without the probes of what it is."""
    return sum(request.path == "/v1/chat/completions" for request in engine.requests)


async def remaining(client: httpx2.AsyncClient, model: str) -> float:
    limits = (await client.get("/v1/limits", params={"model": model})).json()["data"]
    assert len(limits) == 1, limits
    return limits[0]["remaining"]


async def test_rate_limited_request_gets_a_true_retry_after(client: httpx2.AsyncClient, engine: ScriptedEngine):
    # On a busy machine three requests may take longer than the second that the limit is about: then the burst is sent again.
    for _ in range(60):
        requests_before, began = count_chat_requests(engine), time.monotonic()
        answers = await asyncio.gather(*(send_chat(client, "only-requests") for _ in range(3)))
        if time.monotonic() - began < 1:
            break
        await asyncio.sleep(1.1)
    else:
        raise AssertionError("three requests never took less than a second")
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429]
    assert count_chat_requests(engine) == requests_before + 2
    refused = next(answer for answer in answers if answer.status_code == 429)
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_exceeded", "requests_limit_reached")
    assert "two a second" in error["message"] and error["details"]["rule"] == "two a second"
    wait_s = float(refused.headers["retry-after-ms"]) / 1000
    assert 0 < wait_s <= 1.1 and int(refused.headers["retry-after"]) >= wait_s
    await asyncio.sleep(wait_s)
    assert (await send_chat(client, "only-requests")).status_code == 200
    assert count_chat_requests(engine) == requests_before + 3


async def test_response_carries_ratelimit_headers(client: httpx2.AsyncClient, engine: ScriptedEngine):
    await asyncio.sleep(1.1)
    answer = await send_chat(client, "only-requests")
    assert answer.headers["x-ratelimit-limit-requests"] == "2"
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"
    assert answer.headers["x-ratelimit-reset-requests"].endswith("s")


async def test_sdk_retries_after_a_rate_limit_and_succeeds(service: Service, engine: ScriptedEngine):
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=3) as sdk:
        answers = [await sdk.chat.completions.create(model="only-requests", messages=HI) for _ in range(5)]
    assert len(answers) == 5


async def test_reserved_tokens_block_others_and_unused_ones_are_returned(client: httpx2.AsyncClient, engine: ScriptedEngine):
    before = await remaining(client, "only-tokens")
    assert (await send_chat(client, "only-tokens", max_tokens=900)).status_code == 200
    assert await remaining(client, "only-tokens") == before - USED

    started, may_respond = asyncio.Event(), asyncio.Event()

    async def respond_later(request: ReceivedRequest) -> None:
        started.set()
        await may_respond.wait()
        await request.respond_completion()

    engine.script = respond_later
    running = asyncio.create_task(send_chat(client, "only-tokens", max_tokens=900))
    await started.wait()
    refused = await send_chat(client, "only-tokens", max_tokens=900)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "tokens_limit_reached")
    may_respond.set()
    assert (await running).status_code == 200
    assert await remaining(client, "only-tokens") == before - 2 * USED


async def test_request_larger_than_its_limit_is_a_400_without_retry_after(client: httpx2.AsyncClient, engine: ScriptedEngine):
    refused = await send_chat(client, "only-tokens", max_tokens=5000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "limit_exceeds_amount")
    assert "retry-after" not in refused.headers and count_chat_requests(engine) == 0


async def test_concurrency_slot_is_free_as_soon_as_a_response_ends(client: httpx2.AsyncClient, engine: ScriptedEngine):
    for _ in range(20):
        assert (await send_chat(client, "only-slots")).status_code == 200
    engine.script = stream_script(*HELLO)
    for _ in range(5):
        assert (await send_chat(client, "only-slots", stream=True)).status_code == 200


async def test_client_disconnect_frees_the_concurrency_slot_and_is_charged(
    service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine
):
    async def endless(request: ReceivedRequest) -> None:
        request.begin_stream()
        for _ in range(4):
            request.send_event(chunk({"content": "word "}))
        await request.disconnected.wait()

    engine.script = endless
    body = {"model": "only-slots", "messages": HI, "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
        id = stream.headers["x-narthex-inference-id"]
        chunks = stream.aiter_bytes()  # kept: a dropped iterator closes the connection
        await anext(chunks)
        refused = await send_chat(client, "only-slots")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "concurrency_limit_reached")
        assert refused.json()["error"]["details"]["retry_after_kind"] == "estimate"
    engine.script = ReceivedRequest.respond_completion

    async def is_admitted() -> bool:
        return (await send_chat(client, "only-slots")).status_code == 200

    await wait_until(is_admitted)
    record = await service.wait_for_record(id)
    assert record["outcome"] == "disconnected"
    assert record["charged_input"] > 0 and (record["charged_output"], record["charge_basis"]) == (1024, "reserved")


async def test_fallback_model_is_checked_against_its_own_limits(client: httpx2.AsyncClient, engine: ScriptedEngine):
    first, second = [await send_chat(client, "only-backed") for _ in range(2)]
    assert (first.status_code, second.status_code) == (200, 200)
    # The first used up the first fallback, so the second was served by the other.
    assert (await send_chat(client, "only-backup")).status_code == 429


async def test_cost_limit_counts_by_price_and_refuses_unpriced_models(service: Service, client: httpx2.AsyncClient, engine: ScriptedEngine):
    answer = await send_chat(client, "only-priced", max_tokens=5)
    record = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert record["cost_microusd"] == 3 * 10 + 2 * 1000
    refused = await send_chat(client, "only-priced", max_tokens=9)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "cost_limit_reached")
    assert refused.json()["error"]["details"]["remaining"] == pytest.approx(0.01 - 0.00203)
    refused = await send_chat(client, "only-unpriced")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "no_price")


async def test_each_tag_value_has_its_own_limit(client: httpx2.AsyncClient, engine: ScriptedEngine):
    async def status_for_tenant(tenant: str) -> int:
        return (await send_chat(client, "only-tagged", {"x-narthex-tags": f'{{"tenant": "{tenant}"}}'})).status_code

    assert [await status_for_tenant("blue"), await status_for_tenant("green"), await status_for_tenant("blue")] == [200, 200, 429]
    assert (await send_chat(client, "only-tagged")).status_code == 200  # without the tag, the limit does not apply


async def test_dry_run_limit_counts_refusals_without_refusing(client: httpx2.AsyncClient, engine: ScriptedEngine):
    for _ in range(3):
        answer = await send_chat(client, "only-dry")
        assert answer.status_code == 200 and "x-ratelimit-limit-requests" not in answer.headers

    async def are_counted() -> bool:
        return 'narthex_limit_dry_run_refusals_total{rule="a dry run"} 2.0' in (await client.get("/metrics")).text

    await wait_until(are_counted)


async def test_refused_and_unsupported_requests_use_no_quota(client: httpx2.AsyncClient, engine: ScriptedEngine):
    refused = await send_chat(client, "only-month", chat_template_kwargs={"a": 1})
    assert refused.status_code == 422
    assert await remaining(client, "only-month") == 2
    assert [(await send_chat(client, "only-month")).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert await remaining(client, "only-month") == 0


async def test_limits_preview_reports_the_outcome_and_changes_nothing(client: httpx2.AsyncClient, engine: ScriptedEngine):
    before = await remaining(client, "only-tokens")
    body: dict[str, Any] = {"model": "only-tokens", "messages": HI, "max_tokens": 100}
    preview = (await client.post("/v1/limits/preview", json=body)).json()
    assert preview["allowed"] and preview["reserves"]["output_tokens"] == 100 and preview["reserves"]["input_tokens"] > 0
    assert [rule["rule"] for rule in preview["rules"]] == ["a thousand tokens an hour"]
    too_much = (await client.post("/v1/limits/preview", json={**body, "max_tokens": 5000})).json()
    assert (too_much["allowed"], too_much["refused_by"], too_much["retry_after_s"]) == (False, "a thousand tokens an hour", None)
    assert await remaining(client, "only-tokens") == before and count_chat_requests(engine) == 0
    bad = await client.post("/v1/limits/preview", json={"model": "only-tokens"})
    assert bad.status_code == 400 and bad.json()["error"]["param"] == "messages"
    assert (await client.post("/v1/limits/preview", json=body, headers={"authorization": "Bearer no"})).status_code == 401


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("GET", "/v1/limits?model=", "`model` is empty"),
        ("GET", "/v1/limits?modle=scripted", "Unknown parameter 'modle'"),
        ("GET", "/v1/limits?model=scripted&model=scripted", "`model` appears several times"),
        ("POST", "/v1/limits/preview?model=scripted", "Unknown parameter 'model'"),
        ("GET", "/v1/usage?group_by=", "`group_by` is empty"),
        ("GET", "/v1/usage?groupby=day", "Unknown parameter 'groupby'"),
    ],
)
async def test_mistyped_or_empty_parameter_is_refused_by_name(client: httpx2.AsyncClient, method: str, path: str, reason: str):
    refused = await client.request(method, path, json={"model": "scripted", "messages": HI} if method == "POST" else None)
    error = refused.json()["error"]
    assert refused.status_code == 400 and reason in error["message"]
    assert f"`{error['param']}`" in error["message"] or f"'{error['param']}'" in error["message"]
