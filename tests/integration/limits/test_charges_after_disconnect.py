"""A caller who disconnects is charged what was reserved at hosts that may go on, and what came at engines that stop."""

import asyncio
import contextlib
from typing import Any

import pytest

from app.domain import uuid7
from tests.support.processes.service import Service
from tests.support.processes.wait_until import GENEROUS_S, wait_until
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 100_000}
CHAT = "/v1/chat/completions"


async def record_after(service: Service, first_id: str) -> Any:
    records: list[Any] = []
    async with service.admin_client() as admin:

        async def is_recorded() -> bool:
            records[:] = [row for row in (await admin.get("/admin/v1/inferences?limit=1")).json()["data"] if row["id"] > first_id]
            return bool(records)

        await wait_until(is_recorded)
    return records[0]


async def think_in_silence(request: ReceivedRequest) -> None:
    async with asyncio.timeout(GENEROUS_S):
        await request.disconnected.wait()


async def write_four_words(request: ReceivedRequest) -> None:
    request.begin_stream()
    for _ in range(4):
        request.send_event(chunk({"content": "word "}))
    async with asyncio.timeout(GENEROUS_S):
        await request.disconnected.wait()


@pytest.mark.parametrize(("model", "charged"), [("scripted", (100_000, "reserved")), ("vllm", (0, "received"))])
async def test_disconnect_before_the_response_is_charged_what_was_reserved_at_a_host_that_may_go_on(
    service: Service, engine: ScriptedEngine, model: str, charged: tuple[int, str]
):
    engine.script = think_in_silence
    first_id = uuid7.mint()
    async with service.client() as client:
        pending = asyncio.create_task(client.post(CHAT, json={**BODY, "model": model}))
        await wait_until(lambda: bool(engine.requests))
        pending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pending
    row = await record_after(service, first_id)
    assert (row["outcome"], row["charged_output"], row["charge_basis"]) == ("disconnected", *charged)
    assert row["charged_input"] > 0 and row["output_tokens"] is None


@pytest.mark.parametrize(("model", "charged"), [("scripted", (100_000, "reserved")), ("vllm", (5, "received"))])
async def test_disconnect_within_a_stream_is_charged_what_was_reserved_at_a_host_that_may_go_on(
    service: Service, engine: ScriptedEngine, model: str, charged: tuple[int, str]
):
    engine.script = write_four_words
    async with service.client() as client, client.stream("POST", CHAT, json={**BODY, "model": model, "stream": True}) as answer:
        id, lines, seen = answer.headers["x-narthex-inference-id"], answer.aiter_lines(), 0
        while seen < 4:
            seen += "word" in await anext(lines)
    row = await service.wait_for_record(id)
    assert (row["outcome"], row["charged_output"], row["charge_basis"]) == ("disconnected", *charged)


async def test_host_that_ran_out_of_time_is_charged_beside_the_fallback_that_served(
    service: Service, engine: ScriptedEngine, second_engine: ScriptedEngine
):
    """The first token of a stream has a deadline of its own, so that the fallback still has time."""
    engine.script = think_in_silence
    async with service.client() as client:
        answer = await client.post(CHAT, json={**BODY, "model": "pair", "stream": True})
    row = await service.wait_for_record(answer.headers["x-narthex-inference-id"])
    assert (row["outcome"], row["served_provider"], [each["error"] for each in row["attempts"]]) == (
        "answered",
        "second",
        ["TimedOut", None],
    )
    assert (row["charged_output"], row["charge_basis"]) == (100_000 + row["output_tokens"], "reserved")


async def test_answered_request_is_charged_what_the_engine_reported(service: Service, engine: ScriptedEngine):
    async with service.client() as client:
        answer = await client.post(CHAT, json={**BODY, "model": "scripted"})
    row = await service.wait_for_record(answer.json()["id"])
    assert (row["charged_output"], row["charge_basis"]) == (row["output_tokens"], "reported")
