"""LMDeploy and its proxy behind the gateway, asked by the official SDKs of three APIs."""

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
from tests.stories.engines.lmdeploy import ScriptedLMDeploy, ScriptedProxy
from tests.stories.engines.telling import Saying
from tests.stories.service import Service

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[tuple[ScriptedLMDeploy, ScriptedProxy]]:
    engine, proxy = ScriptedLMDeploy(), ScriptedProxy()
    await engine.server.start()
    await proxy.server.start()
    url, proxy_url = f"http://127.0.0.1:{engine.server.port}/v1", f"http://127.0.0.1:{proxy.server.port}"
    service.apply(f"""
        [providers]
        lmdeploy = {{ adapter = "lmdeploy", base_url = "{url}" }}
        lmdeploy-now = {{ adapter = "lmdeploy", base_url = "{url}", options = {{ version = "0.18.0" }} }}
        lmdeploy-proxy = {{ adapter = "lmdeploy", base_url = "{proxy_url}" }}
        [models]
        lmdeploy = {{ targets = [{{ provider = "lmdeploy", model = "engine-model" }}] }}
        lmdeploy-now = {{ targets = [{{ provider = "lmdeploy-now", model = "engine-model" }}] }}
        lmdeploy-proxy = {{ targets = [{{ provider = "lmdeploy-proxy", model = "engine-model" }}] }}
        lmdeploy-backed = {{ targets = [{{ provider = "lmdeploy-proxy", model = "engine-model" }}], fallbacks = ["lmdeploy"] }}
    """)
    yield engine, proxy
    await engine.server.stop()
    await proxy.server.stop()


@pytest.fixture
def lmdeploy(running: tuple[ScriptedLMDeploy, ScriptedProxy]) -> ScriptedLMDeploy:
    running[0].fresh()
    return running[0]


@pytest.fixture
def proxy(running: tuple[ScriptedLMDeploy, ScriptedProxy]) -> ScriptedProxy:
    running[1].fresh()
    return running[1]


async def tell(caller: Caller, stream: bool, model: str = "lmdeploy", **more: Any) -> Heard:
    return await (caller.stream if stream else caller.ask)(model, **more)


whole_or_stream = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@whole_or_stream
async def test_an_answer_is_told_whole_with_its_thoughts_and_usage(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    lmdeploy.saying = Saying("Hello there.", thoughts="Greet them.")
    heard = await tell(caller, stream)
    assert (heard.text, heard.thoughts, heard.finish, heard.output_tokens) == ("Hello there.", "Greet them.", "stop", 2)
    assert (heard.guided, heard.dropped, lmdeploy.ignored) == (None, None, set())


@whole_or_stream
async def test_calls_are_told(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    lmdeploy.saying = Saying(calls=(("weather", '{"city": "Rome"}'),))
    heard = await tell(caller, stream, tools=list(caller.tools))
    assert (heard.calls, heard.finish, lmdeploy.ignored) == (lmdeploy.saying.calls, "tool_calls", set())
    assert lmdeploy.bodies[0]["tools"][0]["function"]["parameters"] == PARAMETERS


@whole_or_stream
@pytest.mark.parametrize(("model", "how"), [("lmdeploy", "validated"), ("lmdeploy-now", "enforced")])
async def test_a_schema_of_each_api_is_asked_for_and_looked_at_where_that_is_wise(
    caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool, model: str, how: str
):
    lmdeploy.saying = Saying('{"a": 1}')
    heard = await tell(caller, stream, model, **caller.schema(SCHEMA))
    assert (json.loads(heard.text), heard.guided) == ({"a": 1}, how)
    assert lmdeploy.bodies[0]["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("said", [{"guided_regex": "yes|no"}, {"guided_choice": ["yes", "no"]}], ids=["regex", "choice"])
async def test_a_regex_and_a_choice_reach_it_as_a_regex_schema(caller: Caller, lmdeploy: ScriptedLMDeploy, said: dict[str, Any]):
    lmdeploy.saying = Saying("yes")
    heard = await caller.ask("lmdeploy-now", extra_body=said)
    assert (heard.text, heard.guided) == ("yes", "enforced" if "guided_regex" in said else "converted")
    assert lmdeploy.bodies[0]["response_format"] in (
        {"type": "regex_schema", "regex_schema": "yes|no"},
        {"type": "regex_schema", "regex_schema": "(yes|no)"},
    )


async def test_its_own_regex_schema_is_a_callers_word_too(sdk: openai.AsyncOpenAI, lmdeploy: ScriptedLMDeploy):
    format = {"type": "regex_schema", "regex_schema": "call me [A-Za-z]{1,10}"}
    lmdeploy.saying = Saying("call me Ann")
    heard = await Chat(sdk).ask("lmdeploy", extra_body={"response_format": format})
    assert (heard.text, heard.guided, lmdeploy.bodies[0]["response_format"]) == ("call me Ann", "validated", format)


@pytest.mark.parametrize(
    "said", [{"guided_grammar": 'root ::= "a"'}, {"structural_tag": {"format": {"type": "any_text"}}}], ids=["grammar", "tag"]
)
async def test_what_it_has_no_word_for_is_refused_before_it_is_asked(caller: Caller, lmdeploy: ScriptedLMDeploy, said: dict[str, Any]):
    with pytest.raises((openai.UnprocessableEntityError, anthropic.UnprocessableEntityError), match=next(iter(said))):
        await caller.ask("lmdeploy-now", extra_body=said)
    assert lmdeploy.bodies == []


async def test_every_documented_field_reaches_it_and_none_is_ignored(client: httpx.AsyncClient, lmdeploy: ScriptedLMDeploy):
    asked: dict[str, Any] = {
        **{
            "temperature": 0.1,
            "top_p": 0.9,
            "n": 1,
            "stream": False,
            "max_completion_tokens": 7,
            "max_tokens": 7,
            "repetition_penalty": 1.1,
        },
        **{"stop": "x", "top_k": -1, "ignore_eos": True, "skip_special_tokens": False, "spaces_between_special_tokens": False, "seed": 3},
        **{"min_new_tokens": 2, "min_p": 0.1, "session_id": 5, "do_preprocess": True, "logprobs": True, "top_logprobs": 2},
        **{"chat_template_kwargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "enable_thinking": True, "reasoning_effort": "low"},
        **{"return_token_ids": True, "include_stop_str_in_output": True, "presence_penalty": 0, "frequency_penalty": 0.0, "user": "u"},
        **{"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}], "tool_choice": "auto", "logit_bias": {}},
    }
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": "Hello!", **asked})
    assert (answer.status_code, answer.headers.get("x-narthex-dropped"), lmdeploy.ignored) == (200, "user", set())
    sent = lmdeploy.bodies[0]
    nothing_asked = {"n", "stream", "do_preprocess", "presence_penalty", "frequency_penalty", "user", "logit_bias", "top_k"}
    assert sent.items() >= {key: value for key, value in asked.items() if key not in nothing_asked}.items()
    assert (sent["messages"], sent["top_k"]) == (HI, 0)


async def test_a_raw_prompt_in_a_chat_goes_on_as_a_completion(client: httpx.AsyncClient, lmdeploy: ScriptedLMDeploy):
    """`messages` as a text with `do_preprocess: false`, which 0.18 has no longer."""
    lmdeploy.saying = Saying(" and so on")
    body = {"model": "lmdeploy", "messages": "Once", "do_preprocess": False, "max_tokens": 9, "stream": False}
    answer = await client.post("/v1/chat/completions", json=body)
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, " and so on")
    assert (lmdeploy.paths, lmdeploy.bodies[0]["prompt"], lmdeploy.ignored) == (["/v1/completions"], "Once", set())


@whole_or_stream
async def test_a_constraint_that_was_dropped_in_silence_is_seen(caller: Caller, lmdeploy: ScriptedLMDeploy, stream: bool):
    """TurboMind of 0.16 answers 200 and free text to a schema that it cannot compile."""
    lmdeploy.drops = True
    with pytest.raises((openai.APIError, anthropic.APIError), match="was not seen to"):
        await tell(caller, stream, **caller.schema(SCHEMA))


@pytest.mark.parametrize(("status", "told"), [(409, 409), (499, 502), (503, 503)])
async def test_its_flat_errors_are_told_in_our_envelope(client: httpx.AsyncClient, lmdeploy: ScriptedLMDeploy, status: int, told: int):
    lmdeploy.told = status, {"message": "what went wrong", "type": "server_error", "code": status, "param": None, "object": "error"}
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": HI})
    assert (answer.status_code, answer.json()["error"]["message"]) == (told, "what went wrong")


async def test_an_occupied_session_is_the_callers_fault(client: httpx.AsyncClient, lmdeploy: ScriptedLMDeploy):
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy", "messages": HI, "session_id": 13})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "The session_id 13 is occupied.")


async def test_hanging_up_closes_its_session(caller: Caller, lmdeploy: ScriptedLMDeploy):
    lmdeploy.slow = True
    asking = asyncio.create_task(tell(caller, stream=True))
    async with asyncio.timeout(5):
        while not lmdeploy.bodies:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        await lmdeploy.stopped.wait()
    assert "/abort_request" not in lmdeploy.paths


# What the proxy tells with status 200, and what it is.
WRONG: list[tuple[Any, int, str]] = [
    ({"error_code": 10400, "text": "The request model name does not exist in the model list."}, 404, "does not exist"),
    ({"error_code": 10401, "text": "The service is unavailable now."}, 503, "unavailable"),
    ({"error_code": 10402, "text": "Failed to get response after a period of time"}, 504, "period of time"),
    ({"object": "error", "message": "The top_p must be in (0, 1].", "type": "t", "code": 400, "param": None}, 400, "top_p"),
    ({"object": "error", "message": "asleep", "type": "server_error", "code": 503, "param": None}, 503, "asleep"),
    ({"detail": [{"loc": ["body", "n"], "msg": "not an integer", "type": "t"}]}, 422, "not an integer"),
]


@whole_or_stream
@pytest.mark.parametrize(("wrong", "status", "said"), WRONG, ids=[str(each[1]) + each[2][:5] for each in WRONG])
async def test_what_its_proxy_tells_with_200_has_its_status_again(
    caller: Caller, proxy: ScriptedProxy, stream: bool, wrong: Any, status: int, said: str
):
    proxy.wrong = wrong
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError), match=said) as told:
        await tell(caller, stream, "lmdeploy-proxy")
    assert told.value.status_code == status


@whole_or_stream
async def test_a_model_that_its_proxy_tells_in_a_string_is_missing(client: httpx.AsyncClient, proxy: ScriptedProxy, stream: bool):
    proxy.wrong, proxy.in_string = WRONG[0][0], True
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy-proxy", "messages": HI, "stream": stream})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


async def test_a_bare_line_in_the_midst_of_a_stream_is_told_as_its_error(caller: Caller, proxy: ScriptedProxy):
    proxy.wrong, proxy.begun = WRONG[2][0], True
    with pytest.raises((openai.APIError, anthropic.APIError, AssertionError), match="period of time"):
        await tell(caller, True, "lmdeploy-proxy")


@whole_or_stream
@pytest.mark.parametrize("wrong", [each[0] for each in WRONG[:3]], ids=["missing", "unavailable", "timeout"])
async def test_another_target_serves_what_the_proxy_cannot(
    client: httpx.AsyncClient, lmdeploy: ScriptedLMDeploy, proxy: ScriptedProxy, stream: bool, wrong: Any
):
    proxy.wrong = wrong
    answer = await client.post("/v1/chat/completions", json={"model": "lmdeploy-backed", "messages": HI, "stream": stream})
    assert answer.status_code == 200 and len(lmdeploy.bodies) == 1
