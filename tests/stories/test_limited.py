"""Limits as callers meet them: told what is left, refused with the truth, charged for what was used and for nothing else."""

import asyncio
import time
from typing import Any

import httpx
import openai
import pytest

from tests.stories.scripted import HELLO, Asked, ScriptedEngine, chunk, streaming
from tests.stories.service import Service

HI: Any = [{"role": "user", "content": "Hello!"}]
USED = 5  # tokens of each answer, as the scripted engine tells

RULES = """
[models]
only-backed = { targets = [{ provider = "nowhere", model = "x" }], fallbacks = ["only-backup", "only-behind"] }
only-unpriced = { targets = [{ provider = "second", model = "nobody-priced" }] }
only-requests = TARGET
only-tokens = TARGET
only-places = TARGET
only-backup = TARGET
only-behind = TARGET
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
scope = { model = "only-places" }
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
name = "a cent a day of who knows what"
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
name = "only looked at"
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
    """Every rule is about a model of its own, so that no other story meets one."""
    service.apply(RULES)


async def ask(client: httpx.AsyncClient, model: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json={"model": model, "messages": HI, **more}, headers=headers or {})


def chats(engine: ScriptedEngine) -> int:
    """How often it was asked, apart from probes of what it is."""
    return sum(asked.path == "/v1/chat/completions" for asked in engine.asked)


async def left(client: httpx.AsyncClient, model: str) -> float:
    told = (await client.get("/v1/limits", params={"model": model})).json()["data"]
    assert len(told) == 1, told
    return told[0]["remaining"]


async def test_a_key_over_its_limit_is_told_when_to_come_back_and_that_is_true(client: httpx.AsyncClient, engine: ScriptedEngine):
    answers = [await ask(client, "only-requests") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    refused = answers[2]
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("rate_limit_exceeded", "requests_limit_reached")
    assert "two a second" in error["message"] and error["details"]["rule"] == "two a second"
    wait_s = float(refused.headers["retry-after-ms"]) / 1000
    assert 0 < wait_s <= 1.1 and int(refused.headers["retry-after"]) >= wait_s
    await asyncio.sleep(wait_s)
    assert (await ask(client, "only-requests")).status_code == 200
    assert chats(engine) == 3


async def test_an_answer_tells_what_is_left(client: httpx.AsyncClient, engine: ScriptedEngine):
    await asyncio.sleep(1.1)
    answer = await ask(client, "only-requests")
    assert answer.headers["x-ratelimit-limit-requests"] == "2"
    assert answer.headers["x-ratelimit-remaining-requests"] == "1"
    assert answer.headers["x-ratelimit-reset-requests"].endswith("s")


async def test_the_official_sdk_obeys_a_refusal_and_succeeds(service: Service, engine: ScriptedEngine):
    async with openai.AsyncOpenAI(base_url=service.url + "/v1", api_key=service.key, max_retries=3) as sdk:
        answers = [await sdk.chat.completions.create(model="only-requests", messages=HI) for _ in range(5)]
    assert len(answers) == 5


async def test_tokens_are_reserved_and_what_was_not_used_is_given_back(client: httpx.AsyncClient, engine: ScriptedEngine):
    before = await left(client, "only-tokens")
    assert (await ask(client, "only-tokens", max_tokens=900)).status_code == 200
    assert await left(client, "only-tokens") == before - USED

    begun, release = asyncio.Event(), asyncio.Event()

    async def later(asked: Asked) -> None:
        begun.set()
        await release.wait()
        await asked.whole()

    engine.script = later
    running = asyncio.create_task(ask(client, "only-tokens", max_tokens=900))
    await begun.wait()
    refused = await ask(client, "only-tokens", max_tokens=900)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "tokens_limit_reached")
    release.set()
    assert (await running).status_code == 200
    assert await left(client, "only-tokens") == before - 2 * USED


async def test_a_request_that_can_never_pass_is_told_so_and_not_to_wait(client: httpx.AsyncClient, engine: ScriptedEngine):
    refused = await ask(client, "only-tokens", max_tokens=5000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "limit_exceeds_amount")
    assert "retry-after" not in refused.headers and chats(engine) == 0


async def test_a_place_is_free_the_moment_an_answer_ends(client: httpx.AsyncClient, engine: ScriptedEngine):
    for _ in range(20):
        assert (await ask(client, "only-places")).status_code == 200
    engine.script = streaming(*HELLO)
    for _ in range(5):
        assert (await ask(client, "only-places", stream=True)).status_code == 200


async def test_hanging_up_frees_the_place_and_is_charged_for(service: Service, client: httpx.AsyncClient, engine: ScriptedEngine):
    async def endless(asked: Asked) -> None:
        asked.begin_stream()
        for _ in range(4):
            asked.frame(chunk({"content": "word "}))
        await asked.left.wait()

    engine.script = endless
    body = {"model": "only-places", "messages": HI, "stream": True}
    async with client.stream("POST", "/v1/chat/completions", json=body) as stream:
        id = stream.headers["x-narthex-inference-id"]
        said = stream.aiter_bytes()  # kept: a dropped iterator closes the connection, as if its caller had hung up
        await anext(said)
        refused = await ask(client, "only-places")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "concurrency_limit_reached")
        assert refused.json()["error"]["details"]["retry_after_is"] == "estimate"
    engine.script = Asked.whole
    until = time.monotonic() + 5
    while (await ask(client, "only-places")).status_code != 200:
        assert time.monotonic() < until
        await asyncio.sleep(0.02)
    told = await service.recorded(id)
    assert told["outcome"] == "hung_up"
    assert told["charged_input"] > 0 and told["charged_output"] == 4


async def test_a_fallback_with_rules_of_its_own_is_asked_for_them(client: httpx.AsyncClient, engine: ScriptedEngine):
    first, second = [await ask(client, "only-backed") for _ in range(2)]
    assert (first.status_code, second.status_code) == (200, 200)
    # The first took the first fallback's only one, so the second was answered by the other.
    assert (await ask(client, "only-backup")).status_code == 429


async def test_cost_is_counted_by_the_price_and_refused_without_one(service: Service, client: httpx.AsyncClient, engine: ScriptedEngine):
    answer = await ask(client, "only-priced", max_tokens=5)
    told = await service.recorded(answer.headers["x-narthex-inference-id"])
    assert told["cost_microusd"] == 3 * 10 + 2 * 1000
    refused = await ask(client, "only-priced", max_tokens=9)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "cost_limit_reached")
    assert refused.json()["error"]["details"]["remaining"] == pytest.approx(0.01 - 0.00203)
    refused = await ask(client, "only-unpriced")
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "no_price")


async def test_each_tag_has_an_amount_of_its_own(client: httpx.AsyncClient, engine: ScriptedEngine):
    async def of(tenant: str) -> int:
        return (await ask(client, "only-tagged", {"x-narthex-tags": f'{{"tenant": "{tenant}"}}'})).status_code

    assert [await of("blue"), await of("green"), await of("blue")] == [200, 200, 429]
    assert (await ask(client, "only-tagged")).status_code == 200  # no tag, no subject


async def test_a_dry_run_counts_and_never_refuses(client: httpx.AsyncClient, engine: ScriptedEngine):
    for _ in range(3):
        answer = await ask(client, "only-dry")
        assert answer.status_code == 200 and "x-ratelimit-limit-requests" not in answer.headers
    until = time.monotonic() + 5
    while 'narthex_limit_dry_run_refusals_total{rule="only looked at"} 2.0' not in (await client.get("/metrics")).text:
        assert time.monotonic() < until
        await asyncio.sleep(0.1)


async def test_a_refusal_uses_nothing_up_and_neither_does_what_reached_no_engine(client: httpx.AsyncClient, engine: ScriptedEngine):
    refused = await ask(client, "only-month", chat_template_kwargs={"a": 1})
    assert refused.status_code == 422
    assert await left(client, "only-month") == 2
    assert [(await ask(client, "only-month")).status_code for _ in range(4)] == [200, 200, 429, 429]
    assert await left(client, "only-month") == 0


async def test_a_preview_tells_what_would_be_and_changes_nothing(client: httpx.AsyncClient, engine: ScriptedEngine):
    before = await left(client, "only-tokens")
    asked: dict[str, Any] = {"model": "only-tokens", "messages": HI, "max_tokens": 100}
    seen = (await client.post("/v1/limits/preview", json=asked)).json()
    assert seen["allowed"] and seen["reserves"]["output_tokens"] == 100 and seen["reserves"]["input_tokens"] > 0
    assert [rule["rule"] for rule in seen["rules"]] == ["a thousand tokens an hour"]
    too_much = (await client.post("/v1/limits/preview", json={**asked, "max_tokens": 5000})).json()
    assert (too_much["allowed"], too_much["refused_by"], too_much["retry_after_s"]) == (False, "a thousand tokens an hour", None)
    assert await left(client, "only-tokens") == before and chats(engine) == 0
    bad = await client.post("/v1/limits/preview", json={"model": "only-tokens"})
    assert bad.status_code == 400 and bad.json()["error"]["param"] == "messages"
    assert (await client.post("/v1/limits/preview", json=asked, headers={"authorization": "Bearer no"})).status_code == 401
