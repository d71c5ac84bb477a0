"""Streams of a team whose content is masked: large frames hold up neither their caller nor anybody else."""

import asyncio
import json
from typing import Any

import pytest

from app.store.teams import keys
from tests.support.processes.service import Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk, completion

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"
BODY: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Hello!"}], "stream": True}
MAIL = "jane@example.com"


def response_events(text: str) -> list[dict[str, Any]]:
    """Returns events as engines write them: the whole text three times after its deltas, and once more at the end."""
    part: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
    item: dict[str, Any] = {"id": "a", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    place = {"item_id": "a", "output_index": 0, "content_index": 0}
    response: dict[str, Any] = {"id": "r", "object": "response", "created_at": 1, "status": "in_progress", "model": "engine-model"}
    response["output"] = []
    usage = {
        "input_tokens": 3,
        "output_tokens": 2,
        "total_tokens": 5,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    half = len(text) // 2
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **place, "delta": text[:half]},
        {"type": "response.output_text.delta", **place, "delta": text[half:]},
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "status": "completed", "output": [item], "usage": usage}},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def types_of(stream: str) -> list[str]:
    return [json.loads(line[6:])["type"] for line in stream.splitlines() if line.startswith("data: {")]


async def test_frames_that_repeat_the_whole_answer_are_masked_and_recorded_in_their_order(service: Service, engine: ScriptedEngine):
    service.apply('[teams.masked-streams]\ncontent = "masked"')
    key = await keys.create_key(database_url(service), "masked-streams")
    events = response_events(f"{MAIL} is row; " * 8_000)

    async def answer(request: ReceivedRequest) -> None:
        request.begin_stream()
        for event in events:
            request.send_chunk(b"event: %b\ndata: %b\n\n" % (event["type"].encode(), json.dumps(event).encode()))
        request.end_stream()

    engine.script = answer
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client:
        answered = await client.post(RESPONSES, json={"model": "responses", "input": "Hello!", "stream": True, "store": False})
    assert answered.status_code == 200 and answered.text.count(MAIL) == 5 * 8_000
    row = await service.wait_for_record(answered.headers["x-narthex-inference-id"])
    recorded = row["content"]["response"]
    assert row["outcome"] == "answered" and MAIL not in recorded and "withheld" not in recorded
    # The mail that the deltas are cut in is marked in one of them.
    assert recorded.count("[masked: email]") == 5 * 8_000
    assert types_of(recorded) == types_of(answered.text)


@pytest.mark.parametrize("leaves", [True, False], ids=["caller_leaves", "caller_stays"])
async def test_frames_that_cannot_be_masked_delay_nobody_and_are_withheld(service: Service, engine: ScriptedEngine, leaves: bool):
    """A pattern that looks far ahead at each letter takes longer than a request may last; its caller gets all frames meanwhile."""
    team = f"masked-streams-{'left' if leaves else 'stayed'}"
    patterns = "\n".join(f"p{number} = 'a[^{number}]*{number}|a'" for number in range(20))
    service.apply(f'[teams.{team}]\ncontent = "masked"\n[teams.{team}.mask]\ndetectors = []\n[teams.{team}.mask.patterns]\n{patterns}')
    key = await keys.create_key(database_url(service), team)
    may_end = asyncio.Event()

    async def answer(request: ReceivedRequest) -> None:
        request.begin_stream()
        for content in ("first", "a" * 60_000, "after"):
            request.send_event(chunk({"content": content}))
        async with asyncio.timeout(GENEROUS_S):
            await may_end.wait()
        request.send_event(chunk({}, "stop"))
        request.send_event(chunk(usage=completion()["usage"]))
        request.send_event(b"[DONE]")
        request.end_stream()

    engine.script = answer
    loop = asyncio.get_running_loop()
    async with service.client(headers={"authorization": f"Bearer {key}"}) as client, client.stream("POST", CHAT, json=BODY) as answered:
        id, lines, began_s = answered.headers["x-narthex-inference-id"], answered.aiter_lines(), loop.time()
        while "after" not in await anext(lines):
            pass
        async with service.client() as other:
            assert (await other.post(CHAT, json={**BODY, "model": "sandbox", "max_tokens": 4})).status_code == 200
        assert loop.time() - began_s < 5, "the event loop masked it"
        may_end.set()
        if not leaves:
            assert [line async for line in lines if line][-1] == "data: [DONE]"
    row = await service.wait_for_record(id)
    recorded = row["content"]["response"]
    assert row["outcome"] == ("disconnected" if leaves else "answered")
    assert "[withheld: 6" in recorded and "aaaa" not in recorded and "after" not in recorded
