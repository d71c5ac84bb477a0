"""Conversations that keep their arm: over three APIs, of two experiments, while weights change and workers are killed.

One experiment is a model's, by episodes; the other a function's, by a tag.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections import defaultdict
from itertools import cycle
from typing import Any, Literal

import httpx2
from msgspec import Struct, field

from tests.support.processes import service as services
from tests.support.processes.service import PROCESS_TIMEOUT_S, Service
from tests.support.processes.service_inspection import database_url
from tests.support.processes.wait_until import wait_until
from tests.support.processes.writer_process import fetch

CONFIGURATION = """
[models]
one.targets = [{ provider = "sandbox", model = "sandbox" }]
two.targets = [{ provider = "sandbox", model = "sandbox" }]
[models.split.experiment]
arms = { one = 1, two = 1000 }
[functions.answer.variants.plain]
model = "one"
system_template = "Answer."
[functions.answer.variants.kind]
model = "two"
system_template = "Answer kindly."
[functions.answer.experiment]
unit = "tag:ticket"
arms = { plain = 1, kind = 1 }
"""
# One after the other: a conversation that followed the newest weights would change its arm.
WEIGHTS = ({"one": 1000, "two": 1}, {"one": 1, "two": 1000}, {"one": 1, "two": 1})
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
APIS: tuple[Literal["chat", "responses", "messages"], ...] = ("chat", "responses", "messages")
AT_ONCE = 20
ANSWERS_WITHIN_S = 600.0  # on a machine with ten times the work that it can do


class Conversation(Struct):
    """A conversation over one API."""

    number: int
    api: Literal["chat", "responses", "messages"]
    model: Literal["split", "answer"]
    messages: list[dict[str, str]] = field(default_factory=lambda: list[dict[str, str]]())
    answers: list[httpx2.Headers] = field(default_factory=lambda: list[httpx2.Headers]())  # the headers of each


async def assert_conversations_keep_their_arms(conversations: int, turns: int, *, kills: int, weights_every_s: float) -> None:
    """Each turn of the second half comes under newer weights than the one before.

    The function's weights stay: those of an experiment by a tag are refused another value while it runs.
    """
    service = await asyncio.to_thread(services.start, workers=2, writer_batch_ms=30)
    try:
        await asyncio.to_thread(service.apply, CONFIGURATION)
        await wait_until(lambda: _has_begun(service), ANSWERS_WITHIN_S, interval_s=0.5)
        changing = asyncio.create_task(_keep_changing_weights(service, weights_every_s))
        killing = asyncio.create_task(_kill_workers(service, kills))
        held = [Conversation(number, APIS[number % 3], "answer" if number // 3 % 2 else "split") for number in range(conversations)]
        at_once = asyncio.Semaphore(AT_ONCE)
        try:
            conversing = asyncio.gather(*(_converse(service, each, turns, at_once) for each in held))
            await asyncio.wait({asyncio.ensure_future(conversing), changing}, return_when=asyncio.FIRST_COMPLETED)
            if changing.done():  # weights change all along: without that the conversations would wait for ever
                conversing.cancel()
                changing.result()
            await conversing
            await killing
        finally:
            for task in (changing, killing):
                task.cancel()
            await asyncio.gather(changing, killing, return_exceptions=True)
        await _check(service, held, turns)
    finally:
        await asyncio.to_thread(services.stop, service)


async def _check(service: Service, held: list[Conversation], turns: int) -> None:
    ids = [headers["x-narthex-inference-id"] for each in held for headers in each.answers]
    assert len(set(ids)) == len(held) * turns
    query = "SELECT id::text AS id, variant, experiment_version, not_enrolled FROM inferences WHERE id::text = ANY($1)"

    async def are_recorded() -> bool:
        return len(await fetch(database_url(service), query, ids)) == len(ids)

    await wait_until(are_recorded, ANSWERS_WITHIN_S, interval_s=0.5)
    records = {row["id"]: row for row in await fetch(database_url(service), query, ids)}
    arms: dict[str, set[str]] = defaultdict(set)
    for each in held:
        of_headers = {(headers["x-narthex-variant"], headers["x-narthex-served-variant"]) for headers in each.answers}
        versions = {headers["x-narthex-experiment"] for headers in each.answers}
        assert len(of_headers) == len(versions) == 1, (each.number, each.api, of_headers, versions)
        assert not any("x-narthex-not-enrolled" in headers for headers in each.answers), each.number
        ((arm, served),) = of_headers
        assert arm == served
        recorded = {
            (row["variant"], row["experiment_version"], row["not_enrolled"])
            for row in (records[headers["x-narthex-inference-id"]] for headers in each.answers)
        }
        assert recorded == {(arm, int(versions.pop().rpartition("@")[2]), None)}, (each.number, recorded)
        arms[each.model].add(arm)
    if len(held) >= 5 * AT_ONCE:  # of fewer, all may have begun under the same weights
        assert {model: len(each) for model, each in arms.items()} == {"split": 2, "answer": 2}


async def _converse(service: Service, conversation: Conversation, turns: int, at_once: asyncio.Semaphore) -> None:
    async with at_once, service.client() as client:
        for turn in range(turns):
            if turn >= turns // 2:
                await _wait_for_newer_version(client)
            conversation.messages.append({"role": "user", "content": f"Question {turn} of {conversation.number}."})
            answer = await _send(client, conversation, is_streamed=turn % 2 == 1)
            conversation.answers.append(answer.headers)
            conversation.messages.append({"role": "assistant", "content": "An answer."})


async def _send(client: httpx2.AsyncClient, conversation: Conversation, *, is_streamed: bool) -> httpx2.Response:
    """Sends the next turn of a conversation, and repeats it as long as the worker that serves it is killed."""
    body: dict[str, Any] = {"model": conversation.model, "stream": is_streamed}
    headers = {"x-narthex-tags": json.dumps({"ticket": f"T-{conversation.number}"})}
    last = conversation.answers[-1] if conversation.answers else None
    if conversation.api == "responses":
        body["input"] = conversation.messages[-1:]
        if last is not None:
            body["previous_response_id"] = f"resp_{last['x-narthex-inference-id']}"
    else:
        body["messages"] = conversation.messages
        if last is not None and conversation.model == "split":
            headers["x-narthex-episode-id"] = last["x-narthex-episode-id"]
    if conversation.api == "messages":
        body["max_tokens"] = 20
    async with asyncio.timeout(PROCESS_TIMEOUT_S):
        while True:
            with contextlib.suppress(httpx2.TransportError):
                answer = await client.post(PATHS[conversation.api], json=body, headers=headers)
                assert answer.status_code == 200, (conversation.number, conversation.api, answer.text)
                return answer
            await asyncio.sleep(0.05)


async def _newest_version(client: httpx2.AsyncClient) -> int:
    """Returns the version that serves an episode which begins now."""
    answer = await _send(client, Conversation(-1, "chat", "split", [{"role": "user", "content": "Hello!"}]), is_streamed=False)
    assert "x-narthex-not-enrolled" not in answer.headers
    return int(answer.headers["x-narthex-experiment"].rpartition("@")[2])


async def _wait_for_newer_version(client: httpx2.AsyncClient) -> None:
    present = await _newest_version(client)

    async def is_newer() -> bool:
        return await _newest_version(client) > present

    await wait_until(is_newer, ANSWERS_WITHIN_S, interval_s=0.3)


async def _has_begun(service: Service) -> bool:
    async with service.client() as client:
        probes = [Conversation(-1, "chat", model, [{"role": "user", "content": "Hello!"}]) for model in ("split", "answer")]
        answers = [await _send(client, each, is_streamed=False) for each in probes]
    return not any("x-narthex-not-enrolled" in each.headers for each in answers)


async def _keep_changing_weights(service: Service, every_s: float) -> None:
    for arms in cycle(WEIGHTS):
        with contextlib.suppress(httpx2.TransportError):  # of a worker that is killed
            async with service.admin_client() as admin:
                change = {"experiment": {"arms": arms}}
                changed = await admin.patch("/admin/v1/models/split", json=change, headers={"if-match": "*"})
            assert changed.status_code == 200, changed.text
        await asyncio.sleep(every_s)


async def _kill_workers(service: Service, kills: int) -> None:
    """One worker after the other; each is killed only once the one before has been started again."""
    last: dict[str, int] = {}
    for number in range(kills):
        await asyncio.sleep(1)
        name = f"gateway-{number % 2}"
        last[name] = await _pid_of_started(service, name, last.get(name))
        os.kill(last[name], signal.SIGKILL)
        await _pid_of_started(service, name, last[name])


async def _pid_of_started(service: Service, name: str, previous: int | None) -> int:
    pids: list[int] = []

    def is_started() -> bool:
        with contextlib.suppress(OSError, ValueError):
            pid = service.pid(name)
            os.kill(pid, 0)
            if pid != previous:
                pids.append(pid)
        return bool(pids)

    await wait_until(is_started, PROCESS_TIMEOUT_S)
    return pids[-1]
