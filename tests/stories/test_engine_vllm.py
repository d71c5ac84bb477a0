"""vLLM of today and of before 0.12 behind the gateway, asked by the SDKs of three APIs: what it would ignore never gets there."""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests.stories.engines.callers import HI, Caller, Heard
from tests.stories.engines.vllm import ScriptedVLLM
from tests.stories.service import Service

VERSIONS = {"now": "0.32.0", "old": "0.11.2"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
VALID = '{"a": 1}'


@pytest.fixture(scope="module")
async def running(service: Service) -> AsyncGenerator[dict[str, ScriptedVLLM]]:
    """Each tells its version itself; they are models of the names in VERSIONS, `vllm-backed` the first with the other to fall back to."""
    engines = {name: ScriptedVLLM(version) for name, version in VERSIONS.items()}
    lines: list[str] = []
    for name, engine in engines.items():
        await engine.server.start()
        lines += [
            f'[providers.vllm-{name}]\nadapter = "vllm"\nbase_url = "http://127.0.0.1:{engine.server.port}"',
            f'[models.{name}]\ntargets = [{{ provider = "vllm-{name}", model = "engine-model" }}]',
        ]
    lines.append('[models.vllm-backed]\ntargets = [{ provider = "vllm-now", model = "engine-model" }]\nfallbacks = ["old"]')
    service.apply("\n".join(lines))
    async with service.client() as client:
        await _until_known(client, engines["now"])
    yield engines
    for engine in engines.values():
        await engine.server.stop()


async def _until_known(client: httpx.AsyncClient, engine: ScriptedVLLM) -> None:
    """Until both workers have asked it what it is: a regex is promised from then on."""
    deadline, promised = time.monotonic() + 15, 0
    engine.says = "a"
    while promised < 6:
        assert time.monotonic() < deadline
        answer = await client.post("/v1/chat/completions", json={"model": "now", "messages": HI, "guided_regex": "a"})
        promised = promised + 1 if answer.headers.get("x-narthex-guided") == "enforced" else 0
        await asyncio.sleep(0.02)


@pytest.fixture
def engines(running: dict[str, ScriptedVLLM]) -> dict[str, ScriptedVLLM]:
    for engine in running.values():
        engine.fresh()
    return running


async def tell(caller: Caller, stream: bool, model: str, **more: Any) -> Heard:
    return await (caller.stream if stream else caller.ask)(model, **more)


WHOLE_OR_STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
EACH_VERSION = pytest.mark.parametrize("model", VERSIONS)


@WHOLE_OR_STREAM
@EACH_VERSION
async def test_an_answer_is_told_with_its_thoughts(caller: Caller, engines: dict[str, ScriptedVLLM], model: str, stream: bool):
    engines[model].thinks = "Greet them."
    heard = await tell(caller, stream, model)
    assert (heard.text, heard.thoughts, heard.finish) == ("Hello.", "Greet them.", "stop")
    assert engines[model].ignored == set()


@WHOLE_OR_STREAM
@EACH_VERSION
async def test_a_schema_in_each_apis_own_words_binds_the_answer(caller: Caller, engines: dict[str, ScriptedVLLM], model: str, stream: bool):
    engine = engines[model]
    engine.says = VALID
    heard = await tell(caller, stream, model, **caller.schema(SCHEMA))
    assert (heard.text, heard.guided) == (VALID, "enforced")
    assert engine.bound[0] is not None
    assert engine.ignored == set()


# Words of callers, and what an engine of each version is to be told.
WORDS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "guided_regex": ({"guided_regex": "a+"}, {"regex": "a+"}, {"guided_regex": "a+"}),
    "guided_choice": ({"guided_choice": ["a", "b"]}, {"choice": ["a", "b"]}, {"guided_choice": ["a", "b"]}),
    "guided_grammar": ({"guided_grammar": 'root ::= "a"'}, {"grammar": 'root ::= "a"'}, {"guided_grammar": 'root ::= "a"'}),
    "structured_outputs": ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}, {"guided_regex": "a+"}),
}


@pytest.mark.parametrize("word", WORDS)
async def test_engines_words_bind_the_answer_whichever_vllm_serves(caller: Caller, engines: dict[str, ScriptedVLLM], word: str):
    fields, *told = WORDS[word]
    for (model, engine), bound in zip(engines.items(), told, strict=True):
        engine.says = "a"
        heard = await tell(caller, False, model, extra_body=fields)
        assert (heard.guided, engine.bound, engine.ignored) == ("enforced", [bound], set())


@EACH_VERSION
async def test_tools_beside_a_schema_are_refused_before_the_engine_unless_let_go(
    caller: Caller, engines: dict[str, ScriptedVLLM], model: str
):
    asked = {**caller.schema(SCHEMA), "tools": list(caller.tools)}
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as refused:
        await tell(caller, False, model, **asked)
    assert refused.value.status_code == 422
    assert "`tools`" in refused.value.message
    assert engines[model].asked == []
    engines[model].says = VALID
    heard = await tell(caller, False, model, **asked, extra_headers={"x-narthex-drop": "tools"})
    assert (heard.text, heard.dropped, heard.guided) == (VALID, "tools", "enforced")
    assert "tools" not in engines[model].asked[-1].body


async def test_tools_that_are_called_are_told_where_the_schema_is_let_go(client: httpx.AsyncClient, engines: dict[str, ScriptedVLLM]):
    engines["now"].calls = True
    tools = [{"type": "function", "function": {"name": "book", "parameters": SCHEMA}}]
    asked = {"model": "now", "messages": HI, "tools": tools, "response_format": {"type": "json_object"}}
    answer = await client.post("/v1/chat/completions", json=asked, headers={"x-narthex-drop": "response_format"})
    assert answer.json()["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "book"
    assert (answer.headers["x-narthex-dropped"], engines["now"].bound) == ("response_format", [None])
    assert "x-narthex-guided" not in answer.headers


@pytest.mark.parametrize("field", ["typical_p", "best_of", "lora_path", "guided_whitespace_pattern"])
async def test_what_it_would_pass_over_is_refused_by_name_in_each_api(caller: Caller, engines: dict[str, ScriptedVLLM], field: str):
    said: dict[str, Any] = {"typical_p": 0.5, "best_of": 3, "lora_path": "x", "guided_whitespace_pattern": "[ ]"}
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as refused:
        await tell(caller, False, "now", extra_body={field: said[field]})
    assert (refused.value.status_code, engines["now"].asked) == (422, [])
    assert f"`{field}`" in refused.value.message


async def test_hints_go_and_are_reported(client: httpx.AsyncClient, engines: dict[str, ScriptedVLLM]):
    asked = {"model": "now", "messages": HI, "user": "u", "service_tier": "auto", "prediction": {"type": "content", "content": "x"}}
    answer = await client.post("/v1/chat/completions", json=asked)
    assert answer.status_code == 200
    assert {"user", "service_tier", "prediction"} == set(answer.headers["x-narthex-dropped"].replace(" ", "").split(","))
    assert engines["now"].ignored == set()


async def test_a_document_never_gets_to_an_engine_that_reads_none(client: httpx.AsyncClient, engines: dict[str, ScriptedVLLM]):
    parts = [
        {"type": "text", "text": "Sum up."},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,JVBERi0=", "filename": "a"}},
    ]
    refused = await client.post("/v1/chat/completions", json={"model": "now", "messages": [{"role": "user", "content": parts}]})
    assert (refused.status_code, refused.json()["error"]["param"]) == (422, "messages[0].content[1]")
    assert engines["now"].asked == []


async def test_thoughts_go_back_under_the_engines_name_for_them(client: httpx.AsyncClient, engines: dict[str, ScriptedVLLM]):
    said = [*HI, {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}, *HI]
    assert (await client.post("/v1/chat/completions", json={"model": "now", "messages": said})).status_code == 200
    assert engines["now"].asked[0].body["messages"][1] == {"role": "assistant", "content": "Yes.", "reasoning": "Hm."}


async def test_a_full_queue_is_an_overload_that_another_may_take(client: httpx.AsyncClient, engines: dict[str, ScriptedVLLM]):
    engines["now"].full = True
    alone = await client.post("/v1/chat/completions", json={"model": "now", "messages": HI})
    assert (alone.status_code, alone.json()["error"]["type"]) == (503, "rate_limit_exceeded")
    assert (await client.post("/v1/chat/completions", json={"model": "vllm-backed", "messages": HI})).status_code == 200
    assert len(engines["old"].asked) == 1
