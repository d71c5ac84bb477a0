"""Hedging (`hedge` of a model): a request that waits unusually long gets a second attempt; the loser is stopped, recorded and charged."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from tests.support.processes import service as services
from tests.support.processes.service import Service
from tests.support.processes.wait_until import wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

HI: Any = [{"role": "user", "content": "Hello!"}]
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
async def hedged_engines() -> AsyncGenerator[tuple[ScriptedEngine, ScriptedEngine]]:
    first, second = ScriptedEngine(), ScriptedEngine()
    await first.start()
    await second.start()
    yield first, second
    await first.stop()
    await second.stop()


@pytest.fixture(scope="module")
async def one_process(hedged_engines: tuple[ScriptedEngine, ScriptedEngine]) -> AsyncGenerator[Service]:
    """A service of one gateway process, which then knows all latencies."""
    running = services.start(workers=1, retries=0)
    one, two = (f"http://127.0.0.1:{engine.port}" for engine in hedged_engines)
    running.apply(f"""
        [providers]
        one = {{ adapter = "openai", base_url = "{one}", options = {{ stops_on_disconnect = "always" }} }}
        two = {{ adapter = "openai", base_url = "{two}" }}
        [models.targets]
        targets = [{{ provider = "one", model = "m", max_concurrency = 2 }}, {{ provider = "two", model = "m", max_concurrency = 2 }}]
        hedge = {{ quantile = 0.9, budget = 1.0 }}
        [models.mixed]
        targets = [{{ provider = "one", model = "free" }}, {{ provider = "two", model = "capped", max_concurrency = 1 }}]
        hedge = {{ quantile = 0.9, budget = 1.0 }}
        [models.capped]
        targets = [{{ provider = "two", model = "capped", max_concurrency = 1, timeouts = {{ queue_s = 0 }} }}]
        [models.endpoints]
        targets = [{{ provider = "one", model = "n", endpoints = ["{one}", "{two}"] }}]
        hedge = {{ quantile = 0.9, budget = 1.0 }}
    """)
    yield running
    services.stop(running)


async def hang(request: ReceivedRequest) -> None:
    await request.disconnected.wait()


async def warm_up(client: httpx2.AsyncClient, engines: tuple[ScriptedEngine, ScriptedEngine], model: str) -> None:
    """Sends enough requests for a quantile."""
    for engine in engines:
        engine.script = ReceivedRequest.respond_completion
    for _ in range(30):
        assert (await client.post(CHAT, json={"model": model, "messages": HI})).status_code == 200
    for engine in engines:
        engine.requests.clear()


@pytest.mark.parametrize("model", ["targets", "endpoints"])
async def test_second_attempt_answers_and_the_first_is_stopped(
    one_process: Service, hedged_engines: tuple[ScriptedEngine, ScriptedEngine], model: str
):
    async with one_process.client() as client:
        await warm_up(client, hedged_engines, model)
        hanging: list[ReceivedRequest] = []

        async def first_hangs(request: ReceivedRequest) -> None:
            if not hanging:
                hanging.append(request)
                await hang(request)
            else:
                await request.respond_completion("From the other.")

        for engine in hedged_engines:
            engine.script = first_hangs
        answer = await client.post(CHAT, json={"model": model, "messages": HI})
        assert answer.json()["choices"][0]["message"]["content"] == "From the other."
        await asyncio.wait_for(hanging[0].disconnected.wait(), 60)
        record = await one_process.wait_for_record(answer.headers["x-narthex-inference-id"])
        # On a busy machine the first one may be so late that it is the second one that hangs.
        stopped, served = sorted(record["attempts"], key=lambda each: each["error"] is None)
        assert (stopped["error"], served["error"]) == ("Superseded", None)
        assert stopped["endpoint"] != served["endpoint"] and stopped["input_tokens"] > 0
        assert record["charged_input"] == stopped["input_tokens"] + served["input_tokens"]
        assert answer.headers["x-narthex-served"] == f"{served['provider']}/{served['model']}"
        async with one_process.admin_client() as admin:
            timeline = (await admin.get(f"/admin/v1/episodes/{record['episode_id']}/timeline")).json()
        [inference] = timeline["inferences"]
        assert [(each["reason"], each["started_us"]) for each in inference["attempts"]] == [
            ("first", min(each["started_us"] for each in record["attempts"])),
            ("hedge", max(each["started_us"] for each in record["attempts"])),
        ]
        # The places and the load of both are given back.
        for engine in hedged_engines:
            engine.script = ReceivedRequest.respond_completion
        answers = await asyncio.gather(*(client.post(CHAT, json={"model": model, "messages": HI}) for _ in range(6)))
        assert [each.status_code for each in answers] == [200] * 6


async def test_first_attempt_may_win_all_the_same(one_process: Service, hedged_engines: tuple[ScriptedEngine, ScriptedEngine]):
    async with one_process.client() as client:
        await warm_up(client, hedged_engines, "targets")
        first, second = hedged_engines

        async def slow(request: ReceivedRequest) -> None:
            await wait_until(lambda: len(second.requests) == 1)
            await request.respond_completion("Slow.")

        first.script, second.script = slow, hang
        answer = await client.post(CHAT, json={"model": "targets", "messages": HI})
        assert answer.json()["choices"][0]["message"]["content"] == "Slow." and answer.headers["x-narthex-served"] == "one/m"
        await asyncio.wait_for(second.requests[0].disconnected.wait(), 60)


async def test_both_fail_and_the_caller_gets_one_error(one_process: Service, hedged_engines: tuple[ScriptedEngine, ScriptedEngine]):
    async with one_process.client() as client:
        await warm_up(client, hedged_engines, "targets")
        first, second = hedged_engines

        async def fails_late(request: ReceivedRequest) -> None:
            await wait_until(lambda: len(first.requests) + len(second.requests) >= 2)
            await request.respond(500, b"{}")

        first.script = second.script = fails_late
        answer = await client.post(CHAT, json={"model": "targets", "messages": HI})
        assert answer.status_code >= 500
        record = await one_process.wait_for_record(answer.headers["x-narthex-inference-id"])
        assert {each["error"] for each in record["attempts"]} == {"UpstreamFailed"} and record["outcome"] == "failed"


@pytest.mark.parametrize("status", [200, 400, 500])
async def test_place_of_the_second_attempt_is_given_back_however_it_ends(
    one_process: Service, hedged_engines: tuple[ScriptedEngine, ScriptedEngine], status: int
):
    first, second = hedged_engines
    async with one_process.client() as client:
        await warm_up(client, hedged_engines, "mixed")

        async def end(request: ReceivedRequest) -> None:
            if status == 200:
                await request.respond_completion()
            else:
                await request.respond(status, b"{}")

        async def wait_for_the_other(request: ReceivedRequest) -> None:
            await wait_until(lambda: request.disconnected.is_set() or bool(second.requests))
            if status == 500:
                await request.respond(500, b"{}")

        first.script, second.script = wait_for_the_other, end
        answer = await client.post(CHAT, json={"model": "mixed", "messages": HI})
        assert (answer.status_code == 200) == (status == 200) and second.requests
        second.script = ReceivedRequest.respond_completion
        # With the only place taken this would be refused at once.
        assert (await client.post(CHAT, json={"model": "capped", "messages": HI})).status_code == 200


async def test_caller_who_leaves_leaves_both_engines(one_process: Service, hedged_engines: tuple[ScriptedEngine, ScriptedEngine]):
    first, second = hedged_engines
    async with one_process.client() as client:
        await warm_up(client, hedged_engines, "targets")
        first.script = second.script = hang
        task = asyncio.create_task(client.post(CHAT, json={"model": "targets", "messages": HI}))
        await wait_until(lambda: len(first.requests) == len(second.requests) == 1)
        task.cancel()
        for engine in hedged_engines:
            await asyncio.wait_for(engine.requests[0].disconnected.wait(), 60)
        first.script = second.script = ReceivedRequest.respond_completion
        answers = await asyncio.gather(*(client.post(CHAT, json={"model": "targets", "messages": HI}) for _ in range(6)))
        assert [each.status_code for each in answers] == [200] * 6


@pytest.mark.parametrize(
    ("hedge", "expected"), [("{ quantile = 1.0 }", "quantile"), ("{ budget = 0 }", "budget"), ("{ share = 1 }", "share")]
)
def test_hedge_that_makes_no_sense_is_refused(service: Service, hedge: str, expected: str):
    file = f'[models.hedged]\ntargets = [{{ provider = "sandbox", model = "sandbox" }}]\nhedge = {hedge}'
    refused = service.run("apply", "-", "--yes", stdin=file)
    assert refused.returncode != 0 and expected in refused.stderr
