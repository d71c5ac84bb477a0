"""SGLang behind the gateway, asked by the official SDKs of three APIs: nothing is ignored in silence, and what is let go of stops."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.stories.engines.callers import HI, PARAMETERS, Caller, Chat, Heard
from tests.stories.engines.sglang import TOKENS, ScriptedSGLang
from tests.stories.engines.telling import Saying
from tests.stories.scripted import Asked
from tests.stories.service import Service

GBNF = 'root ::= "a" | "b"'
TAG = {"format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[ScriptedSGLang]:
    engine = ScriptedSGLang()
    await engine.server.start()
    service.apply(f"""
        [providers]
        sglang = {{ adapter = "sglang", base_url = "http://127.0.0.1:{engine.server.port}" }}
        again = {{ adapter = "sglang", base_url = "http://127.0.0.1:{engine.server.port}/v1" }}
        [models]
        sglang = {{ targets = [{{ provider = "sglang", model = "engine-model" }}] }}
        sglang-again = {{ targets = [{{ provider = "sglang", model = "engine-model" }}, {{ provider = "again", model = "engine-model" }}] }}
    """)
    yield engine
    await engine.server.stop()


@pytest.fixture
def sglang(running: ScriptedSGLang) -> ScriptedSGLang:
    running.fresh()
    return running


async def tell(caller: Caller, stream: bool, **more: Any) -> Heard:
    return await (caller.stream if stream else caller.ask)("sglang", **more)


whole_or_stream = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@whole_or_stream
async def test_an_answer_is_told_whole_with_its_thoughts_and_usage(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.saying = Saying("Hello there.", thoughts="Greet them.", ending={"matched_stop": 2})
    heard = await tell(caller, stream)
    assert (heard.text, heard.thoughts, heard.finish, heard.output_tokens) == ("Hello there.", "Greet them.", "stop", 2)
    assert (heard.guided, heard.dropped, sglang.ignored) == (None, None, set())


@whole_or_stream
async def test_calls_are_told(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.saying = Saying(calls=(("weather", '{"city": "Rome"}'), ("weather", '{"city": "Paris"}')))
    heard = await tell(caller, stream, tools=list(caller.tools))
    assert heard.calls == sglang.saying.calls and heard.finish == "tool_calls"
    assert sglang.bodies[0]["tools"][0]["function"]["parameters"] == PARAMETERS
    assert sglang.ignored == set()


@whole_or_stream
async def test_a_schema_of_each_api_is_enforced(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.saying = Saying('{"a": 1}')
    heard = await tell(caller, stream, **caller.schema(SCHEMA))
    assert (json.loads(heard.text), heard.guided) == ({"a": 1}, "enforced")
    assert sglang.bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA


# As any caller may say it beside their API's own fields; what SGLang gets; how that is told.
GUIDED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"guided_regex": "[a-z]+"}, {"regex": "[a-z]+"}, "enforced"),
    ({"guided_choice": ["yes", "no"]}, {"regex": "(yes|no)"}, "converted"),
    ({"guided_grammar": GBNF}, {"ebnf": GBNF}, "enforced"),
    ({"structural_tag": TAG}, {"response_format": {**TAG, "type": "structural_tag"}}, "enforced"),
    ({"structured_outputs": {"json_object": True}}, {"response_format": {"type": "json_object"}}, "enforced"),
]


@pytest.mark.parametrize(("said", "written", "how"), GUIDED, ids=[next(iter(each[0])) for each in GUIDED])
async def test_each_constraint_reaches_it_in_its_words(
    caller: Caller, sglang: ScriptedSGLang, said: dict[str, Any], written: dict[str, Any], how: str
):
    sglang.saying = Saying("yes")
    heard = await caller.ask("sglang", extra_body=said)
    assert (heard.text, heard.guided, sglang.ignored) == ("yes", how, set())
    assert sglang.bodies[0].items() >= written.items()


async def test_what_it_would_ignore_is_refused_before_it_is_asked_or_reported(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    with pytest.raises(openai.UnprocessableEntityError, match="length_penalty"):
        await Chat(sdk).ask("sglang", extra_body={"length_penalty": 1.5})
    assert sglang.bodies == []
    heard = await Chat(sdk).ask("sglang", user="u", extra_body={"length_penalty": 1.5}, extra_headers={"x-narthex-drop": "length_penalty"})
    assert (heard.dropped, sglang.ignored) == ("length_penalty, user", set())


async def test_tools_and_a_schema_are_refused_together_naming_both(caller: Caller, sglang: ScriptedSGLang):
    with pytest.raises((openai.UnprocessableEntityError, anthropic.UnprocessableEntityError), match=r"`tools`.*no calls"):
        await caller.ask("sglang", tools=list(caller.tools), **caller.schema(SCHEMA))
    assert sglang.bodies == []


async def test_a_grammar_in_lark_is_refused_before_it_is_asked(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    with pytest.raises(openai.UnprocessableEntityError, match="Lark"):
        await Chat(sdk).ask("sglang", extra_body={"guided_grammar": 'start: "a" | "b"'})
    assert sglang.bodies == []


@whole_or_stream
async def test_a_full_queue_is_overload(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.full = True
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError), match="queue is full") as told:
        await tell(caller, stream)
    assert told.value.status_code == 503


@pytest.mark.parametrize(
    ("status", "code", "told"), [(408, "queue_timeout", 503), (429, "queue_full", 429), (503, "no_available_workers", 503)]
)
async def test_a_routers_refusals_are_overload(client: httpx.AsyncClient, sglang: ScriptedSGLang, status: int, code: str, told: int):
    async def router(asked: Asked) -> None:
        body = json.dumps({"error": {"type": "x", "code": code, "message": "too much to do", "param": None}}).encode()
        await asked.answer(status, body, f"content-type: application/json\r\nx-smg-error-code: {code}\r\nretry-after: 2\r\n")

    sglang.server.script = router
    answer = await client.post("/v1/chat/completions", json={"model": "sglang", "messages": HI})
    assert (answer.status_code, answer.headers["retry-after"]) == (told, "2")
    error = answer.json()["error"]
    assert (error["message"], error["type"], error["param"]) == ("too much to do", "rate_limit_exceeded", None)
    assert error["details"] == {"provider": "sglang", "provider_status": status, "provider_code": code}


@whole_or_stream
async def test_its_bad_request_is_the_callers(client: httpx.AsyncClient, sglang: ScriptedSGLang, stream: bool):
    body = {"model": "sglang", "messages": HI, "stop": [str(at) for at in range(33)], "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "at most 32 stop strings")


@whole_or_stream
async def test_a_grammar_that_fails_once_its_stream_has_begun_is_an_error(client: httpx.AsyncClient, sglang: ScriptedSGLang, stream: bool):
    sglang.compiles = False
    body = {"model": "sglang", "messages": HI, "guided_grammar": GBNF, "stream": stream}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "Failed to compile ebnf grammar: no root")


@whole_or_stream
async def test_an_aborted_answer_is_none(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.saying = Saying("Hel", finish="abort")
    with pytest.raises((openai.APIError, anthropic.APIError, AssertionError), match="gave its answer up"):
        await tell(caller, stream)


async def test_logprobs_are_told_as_they_came(sdk: openai.AsyncOpenAI, sglang: ScriptedSGLang):
    entry = {"token": "Hi", "bytes": [72, 105], "logprob": -0.5, "top_logprobs": [{"token": "Hi", "bytes": [72, 105], "logprob": -0.5}]}
    sglang.saying = Saying("Hi", logprobs={"content": [entry]})
    answer = await sdk.chat.completions.create(model="sglang", messages=HI, logprobs=True, top_logprobs=1)
    assert answer.choices[0].logprobs is not None and answer.choices[0].logprobs.content is not None
    assert answer.choices[0].logprobs.content[0].model_dump() == entry
    assert (sglang.bodies[0]["logprobs"], sglang.bodies[0]["top_logprobs"]) == (True, 1)


@whole_or_stream
async def test_hanging_up_stops_what_closing_would_not(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    sglang.slow = True
    asking = asyncio.create_task(tell(caller, stream))
    await until(lambda: any(made > 3 for made in sglang.made.values()))
    asking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asking
    await until(lambda: sglang.aborted != [])
    rid = sglang.bodies[0]["rid"]
    assert sglang.aborted == [rid]
    made = sglang.made[rid]
    await asyncio.sleep(0.1)
    assert sglang.made[rid] == made < TOKENS


@whole_or_stream
async def test_a_finished_answer_is_not_aborted(caller: Caller, sglang: ScriptedSGLang, stream: bool):
    for _ in range(2):
        await tell(caller, stream)
    await asyncio.sleep(0.1)
    assert sglang.aborted == []
    rids = [body["rid"] for body in sglang.bodies]
    assert len(set(rids)) == 2


async def test_a_refused_request_is_not_aborted_either(client: httpx.AsyncClient, sglang: ScriptedSGLang):
    sglang.full = True
    answer = await client.post("/v1/chat/completions", json={"model": "sglang", "messages": HI})
    await asyncio.sleep(0.1)
    assert (answer.status_code, sglang.aborted) == (503, [])


async def test_another_attempt_at_the_same_engine_has_another_id_and_the_first_is_aborted(
    client: httpx.AsyncClient, sglang: ScriptedSGLang
):
    async def break_once(asked: Asked) -> None:
        if asked.path != "/v1/chat/completions" or sglang.bodies:
            return await sglang.answer(asked)
        sglang.bodies.append(asked.body)
        asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        await asked.writer.drain()
        asked.cut()

    sglang.server.script = break_once
    answer = await client.post("/v1/chat/completions", json={"model": "sglang-again", "messages": HI})
    assert answer.status_code == 200
    first, second = (body["rid"] for body in sglang.bodies)
    assert first == answer.headers["x-narthex-inference-id"] and not second.startswith(first)
    await until(lambda: sglang.aborted != [])
    assert sglang.aborted == [first]


async def until(holds: Any, within_s: float = 5) -> None:
    async with asyncio.timeout(within_s):
        while not holds():
            await asyncio.sleep(0.01)
