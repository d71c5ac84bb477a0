"""Which of a target's endpoints serves a request, through the whole service."""

from typing import Any

import openai
import pytest

from tests.support.scripted_engine import ScriptedEngine
from tests.support.service import Service

HI: Any = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module", autouse=True)
async def pool(service: Service, engines: tuple[ScriptedEngine, ScriptedEngine]) -> None:
    one, two = (f"http://127.0.0.1:{engine.port}/v1" for engine in engines)
    service.apply(f"""
        [providers]
        pool = {{ adapter = "openai", base_url = "{one}" }}
        [models]
        pool = {{ targets = [{{ provider = "pool", model = "engine-model", endpoints = ["{one}", "{two}"] }}] }}
    """)


async def test_quiet_endpoints_take_turns(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    for _ in range(12):
        await sdk.chat.completions.create(model="pool", messages=HI)
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sum(served) == 12 and abs(served[0] - served[1]) <= 2  # each of the two workers begins with the first


async def test_chat_stays_at_the_endpoint_that_has_read_it(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    """Over one connection, so that one worker serves all turns."""
    messages: Any = [{"role": "system", "content": "Answer in one word. " * 100}]
    for number in range(8):
        messages = [*messages, {"role": "user", "content": f"Question {number}?"}]
        answer = await sdk.chat.completions.create(model="pool", messages=messages)
        messages = [*messages, {"role": "assistant", "content": answer.choices[0].message.content}]
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sorted(served) == [0, 8]


async def test_requests_of_a_session_stay_together(sdk: openai.AsyncOpenAI, engine: ScriptedEngine, second_engine: ScriptedEngine):
    for number in range(8):
        await sdk.chat.completions.create(
            model="pool", messages=[{"role": "user", "content": f"{number} " * 100}], extra_headers={"x-narthex-session": "a"}
        )
    served = [len([request for request in each.requests if request.body]) for each in (engine, second_engine)]
    assert sorted(served) == [0, 8]
