"""The sandbox engine as a process, used over HTTP with httpx2 and the official OpenAI SDK."""

import asyncio
import base64
import json
import re
import socket
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import httpx2
import jsonschema
import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.support.processes.wait_until import GENEROUS_S, block_until, wait_until

HELLO: list[Any] = [{"role": "user", "content": "Hello, who is there?"}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "minLength": 1}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city", "parameters": CITY}},
    {"type": "function", "function": {"name": "get_time"}},
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = f"from app.sandbox import serve; serve('127.0.0.1', {port})"
    with subprocess.Popen([sys.executable, "-W", "error", "-c", code], stderr=subprocess.PIPE) as process:
        url = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            assert process.poll() is None
            try:
                return httpx2.get(f"{url}/health", timeout=GENEROUS_S, verify=False).status_code == 200
            except httpx2.TransportError:
                return False

        block_until(is_ready)
        yield url
        process.terminate()
        _, stderr = process.communicate(timeout=GENEROUS_S)
    assert process.returncode in (0, -15)
    assert stderr == b"", "the sandbox wrote warnings or errors"


@pytest.fixture
async def http(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, timeout=GENEROUS_S) as client:
        yield client


@pytest.fixture
async def sdk(address: str) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none needed", max_retries=0) as client:
        yield client


async def chat(http: httpx2.AsyncClient, **body: Any) -> httpx2.Response:
    return await http.post("/v1/chat/completions", json={"model": "sandbox", "messages": HELLO, **body})


async def text_of(http: httpx2.AsyncClient, **body: Any) -> str:
    response = await chat(http, **body)
    assert response.status_code == 200, response.text
    return response.json()["choices"][0]["message"]["content"]


async def frames_of(http: httpx2.AsyncClient, path: str = "/v1/chat/completions", **body: Any) -> list[Any]:
    """The events of a stream in order; [DONE] as that text."""
    response = await http.post(path, json={"model": "sandbox", "stream": True, **body})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
    return [event if event == "[DONE]" else json.loads(event) for event in events]


async def complete(sdk: openai.AsyncOpenAI, **body: Any) -> ChatCompletion:
    create: Any = sdk.chat.completions.create
    answer: ChatCompletion = await create(**{"model": "sandbox", **body})
    return answer


async def metric(http: httpx2.AsyncClient, line: str) -> float:
    found = re.search(rf"^{re.escape(line)} (.*)$", (await http.get("/metrics")).text, re.MULTILINE)
    return float(found[1]) if found else 0.0


async def test_sandbox_identifies_itself_and_echoes_the_prompt(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="sandbox", messages=HELLO)
    text = answer.choices[0].message.content or ""
    assert "sandbox" in text
    assert "Hello, who is there?" in text
    assert answer.system_fingerprint == "narthex-sandbox"
    assert answer.choices[0].finish_reason == "stop"
    models = [model async for model in sdk.models.list()]
    assert {model.id for model in models} == {"sandbox", "sandbox-slow", "sandbox-flaky", "sandbox-dies", "sandbox-embed"}
    assert {model.owned_by for model in models} == {"narthex-sandbox"}
    assert (await sdk.models.retrieve("sandbox-slow")).id == "sandbox-slow"


async def test_stream_sends_role_content_finish_reason_usage_and_done_in_order(http: httpx2.AsyncClient) -> None:
    *chunks, usage, done = await frames_of(http, messages=HELLO, seed=3, stream_options={"include_usage": True})
    assert done == "[DONE]"
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": "", "refusal": None}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert chunks[-1]["choices"][0]["delta"] == {}
    assert all(chunk["usage"] is None for chunk in chunks)
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == len(chunks) - 2
    assert len({chunk["id"] for chunk in chunks}) == 1
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == await text_of(http, seed=3)


async def test_stream_omits_usage_unless_requested(http: httpx2.AsyncClient) -> None:
    *chunks, done = await frames_of(http, messages=HELLO)
    assert done == "[DONE]"
    assert all("usage" not in chunk for chunk in chunks)


async def test_whole_response_reports_usage_and_stops_at_max_tokens(http: httpx2.AsyncClient) -> None:
    # "Hi there" is two tokens and a message three; "one two three four" is four, of which two fit.
    messages = [{"role": "user", "content": "Hi there"}]
    answer = (await chat(http, messages=messages, sandbox={"say": "one two three four"}, max_tokens=2)).json()
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 2
    assert answer["usage"]["total_tokens"] == 7
    assert answer["choices"][0]["message"]["content"] == "one two"
    assert answer["choices"][0]["finish_reason"] == "length"


CONSTRAINTS = {
    "json_object": ({"response_format": {"type": "json_object"}}, {"type": "object"}),
    "json_schema": ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CITY, "strict": True}}}, CITY),
    "guided_json": ({"guided_json": CITY}, CITY),
    "guided_json as text": ({"guided_json": json.dumps(CITY)}, CITY),
    "structured_outputs": ({"structured_outputs": {"json": CITY}}, CITY),
}


@pytest.mark.parametrize("form", CONSTRAINTS)
async def test_schema_is_obeyed_in_every_constraint_form(http: httpx2.AsyncClient, form: str) -> None:
    fields, schema = CONSTRAINTS[form]
    for seed in range(5):
        jsonschema.validate(json.loads(await text_of(http, seed=seed, **fields)), schema)


@pytest.mark.parametrize(
    ("fields", "regex"),
    [
        ({"guided_regex": r"[A-Z]{3}-\d{4}"}, r"[A-Z]{3}-[0-9]{4}"),
        ({"guided_choice": ["ja", "nein", "vielleicht (später)"]}, r"ja|nein|vielleicht \(später\)"),
        ({"guided_grammar": 'root ::= "<" [a-z]+ ">"'}, "<[a-z]+>"),
        ({"guided_grammar": 'start: "<" /[a-z]+/ ">"'}, "<[a-z]+>"),
        (
            {"guided_json": {"type": "array", "items": {"const": 1}, "minItems": 2}, "guided_whitespace_pattern": "[ ]"},
            r"\[ ?1( ?, ?1)+ ?\]",
        ),
        ({"structured_outputs": {"regex": "[ab]+c"}}, "[ab]+c"),
        ({"structured_outputs": {"choice": ["one"]}}, "one"),
        ({"structured_outputs": {"grammar": 'root ::= "x" "y"?'}}, "xy?"),
        (
            {"structural_tag": json.dumps({"format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}})},
            "(?s)<a>.*</a>",
        ),
        (
            {
                "response_format": {
                    "type": "structural_tag",
                    "format": {"type": "or", "elements": [{"type": "const_string", "value": "so"}]},
                }
            },
            "so",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_regex_choice_grammar_and_structural_tag_are_obeyed(http: httpx2.AsyncClient, fields: dict[str, Any], regex: str) -> None:
    for seed in range(5):
        assert re.fullmatch(regex, await text_of(http, seed=seed, **fields))


async def test_constrained_output_beyond_max_tokens_ends_with_length(http: httpx2.AsyncClient) -> None:
    choice = (await chat(http, guided_json=CITY, max_tokens=3)).json()["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] == '{"city'


@pytest.mark.parametrize(
    ("body", "status", "param", "code", "message"),
    [
        ({"guided_regex": "(a"}, 400, "guided_regex", "invalid_constraint", "unclosed group"),
        ({"guided_json": {"type": "text"}}, 400, "guided_json", "invalid_constraint", "Invalid type"),
        ({"guided_grammar": "root = 1"}, 400, "guided_grammar", "invalid_constraint", "Expected ::="),
        ({"guided_choice": []}, 400, "guided_choice", "invalid_constraint", "nothing to choose"),
        (
            {"guided_regex": "a", "response_format": {"type": "json_object"}},
            400,
            "guided_regex",
            "invalid_constraint",
            "response_format, guided_regex",
        ),
        (
            {"guided_regex": "a", "guided_whitespace_pattern": " "},
            400,
            "guided_whitespace_pattern",
            "invalid_constraint",
            "demands no JSON",
        ),
        ({"structural_tag": "{}"}, 400, "structural_tag", "invalid_constraint", "either a `format`"),
        ({"response_format": {"type": "json_schema"}}, 400, "response_format.json_schema.schema", "invalid_value", "missing"),
        ({"response_format": {"type": "xml"}}, 400, "response_format.type", "invalid_value", "xml"),
        ({"model": "gpt-9"}, 404, "model", "model_not_found", "sandbox-slow"),
        ({"model": "sandbox-embed"}, 400, "model", "invalid_value", "only embeds"),
        ({"messages": []}, 400, "messages", "invalid_value", "length >= 1"),
        ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content", "invalid_value", "got `int`"),
        ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, 400, "messages[0].content[0].type", "invalid_value", "smell"),
        ({"temperature": "hot"}, 400, "temperature", "invalid_value", "got `str`"),
        ({"max_tokens": 0}, 400, "max_tokens", "invalid_value", ">= 1"),
        ({"max_tokens": 3, "min_tokens": 4}, 400, "min_tokens", "invalid_value", "the maximum 3"),
        ({"max_completion_tokens": 3, "min_tokens": 4}, 400, "min_tokens", "invalid_value", "the maximum 3"),
        ({"min_tokens": 2_000, "n": 128}, 400, "min_tokens", "invalid_value", "100000"),
        ({"min_tokens": 20_000, "logprobs": True, "top_logprobs": 20}, 400, "min_tokens", "invalid_value", "alternatives"),
        ({"ignore_eos": True, "max_tokens": 50_001, "n": 2}, 400, "ignore_eos", "invalid_value", "100000"),
        ({"sandbox": {"say": "a " * 2_000}, "n": 128}, 400, "sandbox.say", "invalid_value", "100000"),
        ({"top_logprobs": 3}, 400, "top_logprobs", "invalid_value", "logprobs"),
        ({"stop": [""]}, 400, "stop", "invalid_value", "empty"),
        ({"tool_choice": "required"}, 400, "tool_choice", "invalid_value", "there are none"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "fly"}}}, 400, "tool_choice", "invalid_value", "'fly'"),
        ({"sandbox": {"dealy_ms": 5}}, 400, "sandbox", "invalid_value", "dealy_ms"),
        (
            {"messages": [{"role": "user", "content": "a " * 530_000}]},
            400,
            None,
            "context_length_exceeded",
            "maximum context length is 524288",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_invalid_request_error_names_field_code_and_reason(
    http: httpx2.AsyncClient, body: dict[str, Any], status: int, param: str | None, code: str, message: str
) -> None:
    response = await chat(http, **body)
    assert response.status_code == status
    error = response.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)
    assert message in error["message"]


HELD_TOO_LONG: dict[str, tuple[str, dict[str, Any], str]] = {
    "tokens_of_inputs": ("/v1/embeddings", {"model": "sandbox-embed", "input": ["word " * 8_000] * 20}, "150000 tokens"),
    "numbers_of_vectors": ("/v1/embeddings", {"model": "sandbox-embed", "input": ["hi"] * 2048, "dimensions": 4096}, "2097152 numbers"),
    "documents": ("/rerank", {"model": "sandbox-embed", "query": "x", "documents": ["word " * 8_000] * 20}, "150000 tokens"),
    "prompts": ("/v1/completions", {"model": "sandbox", "prompt": ["- " * 250_000] * 8}, "1048576 tokens"),
    "choices": ("/v1/chat/completions", {"messages": HELLO, "guided_choice": ["word " * 10] * 6_000, "n": 128}, "262144"),
    "walks": (
        "/v1/chat/completions",
        {"messages": HELLO, "guided_regex": "(a|b)*c{1000}" * 10, "n": 128},
        "more than 1 seconds of computing",
    ),
    "tokenized": ("/tokenize", {"model": "sandbox", "prompt": "a" * 600_000}, "524288"),
    "detokenized": ("/detokenize", {"model": "sandbox", "tokens": [97] * 600_000}, "524288"),
    "counted": ("/v1/messages/count_tokens", {"model": "sandbox", "messages": [{"role": "user", "content": "a b" * 3_000_000}]}, "1048576"),
    "counted_in_pieces": (
        "/v1/messages/count_tokens",
        {"model": "sandbox", "messages": [{"role": "user", "content": "a b" * 300_000}] * 9},
        "at least 1200016",
    ),
}


@pytest.mark.parametrize("case", HELD_TOO_LONG)
async def test_what_would_hold_the_process_for_long_is_a_400_with_the_bound(http: httpx2.AsyncClient, case: str) -> None:
    path, body, bound = HELD_TOO_LONG[case]
    refused = await http.post(path, json={"model": "sandbox", **body})
    assert refused.status_code == 400 and bound in refused.json()["error"]["message"], refused.text[:500]


async def test_one_of_many_choices_is_drawn_for_each_of_many_responses(http: httpx2.AsyncClient) -> None:
    response = await chat(http, guided_choice=["a" * 20, *(f"{number:02}" for number in range(100))] * 50, max_tokens=2, n=128, seed=1)
    written = {choice["message"]["content"] for choice in response.json()["choices"]}
    assert response.status_code == 200 and len(written) > 30 and written <= {f"{number:02}" for number in range(100)}


async def test_unparsable_and_misdirected_requests_get_the_error_envelope(http: httpx2.AsyncClient) -> None:
    broken = await http.post("/v1/chat/completions", content=b'{"model": nope}')
    assert (broken.status_code, "byte 14" in broken.json()["error"]["message"]) == (400, True)
    deep = await http.post("/v1/chat/completions", content=b'{"guided_json":' + b"[" * 100_000)
    assert deep.status_code == 400
    assert (await http.get("/v1/chat/completions")).headers["allow"] == "POST"
    assert (await http.post("/v1/models")).json()["error"]["code"] == "method_not_allowed"
    assert (await http.get("/v2/models")).json()["error"]["code"] == "unknown_url"
    assert (await http.get("/v1/models/none")).json()["error"]["code"] == "model_not_found"
    assert (await http.post("/v1/embeddings", content=b" " * (33 * 1024 * 1024))).status_code == 413


async def test_ignored_fields_are_listed_in_a_header(http: httpx2.AsyncClient) -> None:
    response = await chat(http, user="me", top_p=0.5, seed=1)
    assert response.headers["x-sandbox-ignored"] == "top_p, user"


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"messages": [{"role": "user", "content": "How will the weather be?"}]}, ["get_weather"]),
        ({"messages": [{"role": "user", "content": "Weather and time?"}]}, ["get_weather", "get_time"]),
        ({"messages": [{"role": "user", "content": "Weather and time?"}], "parallel_tool_calls": False}, ["get_weather"]),
        ({"messages": [{"role": "user", "content": "Tell me the time"}], "tool_choice": "none"}, []),
        ({"messages": [{"role": "user", "content": "Sum up what you know of the time. Do NOT call any tools."}]}, []),
        ({"messages": HELLO}, []),
        ({"messages": HELLO, "tool_choice": "required", "seed": 1}, ["get_weather"]),
        ({"messages": HELLO, "tool_choice": {"type": "function", "function": {"name": "get_time"}}}, ["get_time"]),
        ({"messages": HELLO, "sandbox": {"calls": 3}}, ["get_weather", "get_time", "get_weather"]),
    ],
    ids=str,
)
async def test_tool_choice_and_prompt_decide_which_tools_are_called(
    sdk: openai.AsyncOpenAI, fields: dict[str, Any], names: list[str]
) -> None:
    extra_body = {key: value for key, value in fields.items() if key == "sandbox"}
    sdk_fields = {key: value for key, value in fields.items() if key != "sandbox"}
    answer = await complete(sdk, tools=TOOLS, extra_body=extra_body, **sdk_fields)
    (choice,) = answer.choices
    calls = choice.message.tool_calls or []
    functions = [call.function for call in calls if call.type == "function"]
    assert [function.name for function in functions] == names
    assert len({call.id for call in calls}) == len(names)
    for function in functions:
        jsonschema.validate(
            json.loads(function.arguments), CITY if function.name == "get_weather" else {"type": "object", "maxProperties": 0}
        )
    is_named = isinstance(fields.get("tool_choice"), dict)
    assert choice.finish_reason == ("tool_calls" if names and not is_named else "stop")
    assert (choice.message.content is None) == bool(names)


async def test_tool_result_is_followed_by_text(sdk: openai.AsyncOpenAI) -> None:
    messages: list[Any] = [{"role": "user", "content": "How is the weather?"}]
    first = await sdk.chat.completions.create(model="sandbox", tools=TOOLS, messages=messages)
    (call,) = first.choices[0].message.tool_calls or []
    messages += [first.choices[0].message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "Rain."}]
    second = await sdk.chat.completions.create(model="sandbox", tools=TOOLS, messages=messages)
    assert second.choices[0].finish_reason == "stop"
    assert second.choices[0].message.content


async def test_tool_calls_stream_names_before_argument_fragments(sdk: openai.AsyncOpenAI) -> None:
    body: dict[str, Any] = {"model": "sandbox", "tools": TOOLS, "messages": [{"role": "user", "content": "weather, time"}], "seed": 4}
    whole = await complete(sdk, **body)
    deltas: list[Any] = []
    async with sdk.chat.completions.stream(**body) as stream:
        async for event in stream:
            if event.type == "chunk":
                deltas += [call for choice in event.chunk.choices for call in choice.delta.tool_calls or []]
        final = await stream.get_final_completion()
    expected = [(call.id, call.to_dict()["function"]) for call in whole.choices[0].message.tool_calls or []]
    streamed_calls = [
        (call.id, {"name": call.function.name, "arguments": call.function.arguments}) for call in final.choices[0].message.tool_calls or []
    ]
    assert streamed_calls == expected
    assert [(delta.index, delta.function.name) for delta in deltas if delta.id] == [(0, "get_weather"), (1, "get_time")]
    assert all(delta.function.name is None and delta.type is None for delta in deltas if not delta.id)
    assert final.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("fields", "reasons"),
    [
        ({"chat_template_kwargs": {"enable_thinking": True}}, True),
        ({"reasoning_effort": "low"}, True),
        ({"sandbox": {"reasoning": True}}, True),
        ({"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}}, False),
        ({"reasoning_effort": "none"}, False),
        ({}, False),
    ],
    ids=str,
)
async def test_reasoning_appears_only_when_requested(http: httpx2.AsyncClient, fields: dict[str, Any], reasons: bool) -> None:
    answer = (await chat(http, seed=2, **fields)).json()
    message, usage = answer["choices"][0]["message"], answer["usage"]
    assert ("reasoning_content" in message) == reasons
    assert (usage["completion_tokens_details"]["reasoning_tokens"] > 0) == reasons
    deltas = [chunk["choices"][0]["delta"] for chunk in await frames_of(http, messages=HELLO, seed=2, **fields) if chunk != "[DONE]"]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == message.get("reasoning_content", "")
    kinds = ["reasoning" if "reasoning_content" in delta else "text" for delta in deltas[1:-1]]
    assert kinds == sorted(kinds)


async def test_several_choices_stream_interleaved(http: httpx2.AsyncClient) -> None:
    *chunks, _ = await frames_of(http, messages=HELLO, n=3, seed=6)
    texts = ["", "", ""]
    for chunk in chunks:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
    whole = (await chat(http, n=3, seed=6)).json()
    assert texts == [choice["message"]["content"] for choice in whole["choices"]]
    assert len(set(texts)) == 3


async def test_logprobs_have_the_openai_shape(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.chat.completions.create(model="sandbox", messages=HELLO, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs
    assert logprobs.content
    assert b"".join(bytes(token.bytes or []) for token in logprobs.content).decode() == answer.choices[0].message.content
    assert all(token.logprob <= 0 and 1 <= len(token.top_logprobs) <= 2 for token in logprobs.content)


async def test_images_and_files_are_counted_and_mentioned(http: httpx2.AsyncClient) -> None:
    picture = "data:image/png;base64," + base64.b64encode(b"x" * 1000).decode()
    content: list[dict[str, Any]] = [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": picture}},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.jpg", "detail": "low"}},
        {"type": "file", "file": {"filename": "plan.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
    ]
    answer = (await chat(http, messages=[{"role": "user", "content": content}])).json()
    assert answer["usage"]["prompt_tokens"] == 3 + 1 + 765 + 85 + 500
    text = answer["choices"][0]["message"]["content"]
    assert "an image (image/png, 1000 bytes), an image (https://example.com/cat.jpg), a file (plan.pdf, application/pdf, 3 bytes)" in text


async def test_text_completions_answer_each_prompt(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.completions.create(
        model="sandbox", prompt=["first words", "second words"], n=2, echo=True, logprobs=1, max_tokens=20
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    assert [choice.text.partition(" ")[0] for choice in answer.choices] == ["first", "first", "second", "second"]
    assert answer.usage
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (4, 80)
    logprobs = answer.choices[0].logprobs
    assert logprobs
    assert logprobs.text_offset
    assert logprobs.text_offset[0] == len("first words")
    ids = await sdk.completions.create(model="sandbox", prompt=[[1, 2, 3], [4]])
    assert ids.usage
    assert ids.usage.prompt_tokens == 4


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"prompt": ["x"] * 50, "min_tokens": 4_001}, "min_tokens"),
        ({"prompt": ["x"] * 50, "sandbox": {"tokens": 4_001}}, "sandbox.tokens"),
        ({"prompt": ["x"] * 50, "ignore_eos": True, "max_tokens": 4_001}, "ignore_eos"),
        ({"prompt": ["x", "long " * 110_000], "echo": True}, "echo"),
        ({"prompt": ["x"] * 64, "n": 5}, "n"),
        ({"prompt": ["x", "long " * 520_000], "min_tokens": 5_000}, "min_tokens"),
    ],
    ids=lambda value: str(value)[-40:],
)
async def test_prompts_of_one_request_share_the_bound_of_its_output(http: httpx2.AsyncClient, body: dict[str, Any], param: str) -> None:
    refused = await http.post("/v1/completions", json={"model": "sandbox", **body})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param), refused.text


async def test_ignored_end_without_a_maximum_ends_where_the_prompts_have_their_share(http: httpx2.AsyncClient) -> None:
    body = {"model": "sandbox", "prompt": ["x"] * 64, "n": 4, "ignore_eos": True}
    answer = (await http.post("/v1/completions", json=body)).json()
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}
    assert answer["usage"]["completion_tokens"] == 100_000 // 256 * 256


async def test_streamed_text_completion_obeys_its_regex(http: httpx2.AsyncClient) -> None:
    body = {"prompt": "x", "guided_regex": "[a-f]{5,20}", "seed": 1, "stream_options": {"include_usage": True}}
    *chunks, usage, done = await frames_of(http, "/v1/completions", **body)
    assert done == "[DONE]"
    assert re.fullmatch("[a-f]{5,20}", "".join(chunk["choices"][0]["text"] for chunk in chunks))
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens"] == len(chunks) - 1


async def test_embeddings_of_equal_texts_are_equal_in_both_encodings(sdk: openai.AsyncOpenAI, http: httpx2.AsyncClient) -> None:
    through_sdk = await sdk.embeddings.create(model="sandbox-embed", input=["a text", "a text", "else"], dimensions=64)
    first, second, third = [each.embedding for each in through_sdk.data]
    assert first == second != third
    assert len(first) == 64
    assert through_sdk.usage.prompt_tokens == 5
    body = {"model": "sandbox-embed", "input": "a text", "dimensions": 64}
    as_floats = (await http.post("/v1/embeddings", json=body)).json()["data"][0]["embedding"]
    as_base64 = (await http.post("/v1/embeddings", json={**body, "encoding_format": "base64"})).json()["data"][0]["embedding"]
    assert list(struct.unpack("<64f", base64.b64decode(as_base64))) == as_floats == first
    by_ids = await sdk.embeddings.create(model="sandbox-embed", input=[[1, 2], [1, 2], [2, 1]])
    assert by_ids.data[0].embedding == by_ids.data[1].embedding != by_ids.data[2].embedding
    refused = await http.post("/v1/embeddings", json={"model": "sandbox-embed", "input": ["x", ""]})
    assert refused.json()["error"]["message"] == "input[1]: is empty"


IMAGE_BLOCK: dict[str, Any] = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
WEATHER: dict[str, Any] = {"name": "get_weather", "description": "The weather in a city"}


async def test_anthropic_token_count_equals_that_of_the_equivalent_chat(address: str, http: httpx2.AsyncClient) -> None:
    blocks: list[Any] = [{"type": "text", "text": "How is the wea"}, {"type": "text", "text": "ther there?"}, IMAGE_BLOCK]
    call: Any = {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Rome"}}
    reasoning: Any = {"type": "thinking", "thinking": "Let me look it up.", "signature": "signed"}
    result: Any = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "Rain."}]}
    body: Any = {
        "system": "Be brief.",
        "tools": [{**WEATHER, "input_schema": CITY}],
        "messages": [
            {"role": "user", "content": blocks},
            {"role": "assistant", "content": [reasoning, call]},
            {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
        ],
    }
    invalid: Any = {"messages": [{"role": "user", "content": [{**call, "input": "x"}]}]}
    async with anthropic.AsyncAnthropic(base_url=address, api_key="none needed", max_retries=0) as client:
        counted = await client.messages.count_tokens(model="sandbox", **body)
        with pytest.raises(anthropic.BadRequestError) as refused:
            await client.messages.count_tokens(model="sandbox", **invalid)
    assert refused.value.response.json()["type"] == "error"
    assert "messages[0].content[0].input" in refused.value.message
    function = {"name": "get_weather", "arguments": '{"city":"Rome"}'}
    equivalent: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [*blocks[:2], {"type": "image_url", "image_url": "data:image/png;base64,AAAA"}]},
        {
            "role": "assistant",
            "reasoning_content": reasoning["thinking"],
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "Rain."},
        {"role": "user", "content": "And now?"},
    ]
    chat_response = await chat(http, messages=equivalent, tools=[{"type": "function", "function": {**WEATHER, "parameters": CITY}}])
    assert counted.input_tokens == chat_response.json()["usage"]["prompt_tokens"] > 765


async def test_generate_token_ids_are_utf8_bytes_both_ways(http: httpx2.AsyncClient) -> None:
    body: dict[str, Any] = {"model": "sandbox", "token_ids": list("Hé!".encode()), "request_id": "mine"}
    whole = (await http.post("/inference/v1/generate", json={**body, "sampling_params": {"seed": 3, "n": 2, "top_k": 5}})).json()
    texts = [bytes(choice["token_ids"]).decode() for choice in whole["choices"]]
    assert all("sandbox" in text for text in texts)
    assert any("You said: “Hé!”" in text for text in texts)
    assert (whole["request_id"], whole["model"], whole["output_mode"]) == ("mine", "sandbox", "tokens")
    assert [choice["finish_reason"] for choice in whole["choices"]] == ["stop", "stop"]
    completion_tokens = sum(len(choice["token_ids"]) for choice in whole["choices"])
    assert whole["usage"] == {"prompt_tokens": 4, "completion_tokens": completion_tokens, "total_tokens": 4 + completion_tokens}


async def test_streamed_token_ids_obey_their_regex(http: httpx2.AsyncClient) -> None:
    params = {"structured_outputs": {"regex": "[a-f]{20,30}"}, "seed": 1, "top_k": 5}
    body: dict[str, Any] = {"token_ids": [72, 256 + 105], "sampling_params": params}
    whole = await http.post("/inference/v1/generate", json=body)
    assert whole.headers["x-sandbox-ignored"] == "sampling_params.top_k"
    *chunks, usage, done = await frames_of(http, "/inference/v1/generate", **body, stream_options={"include_usage": True})
    ids = [id for chunk in chunks for id in chunk["choices"][0]["token_ids"]]
    assert re.fullmatch("[a-f]{20,30}", bytes(ids).decode())
    assert ids == whole.json()["choices"][0]["token_ids"]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    assert (usage["choices"], usage["usage"], done) == ([], whole.json()["usage"], "[DONE]")
    cut = (await http.post("/inference/v1/generate", json={**body, "sampling_params": {**params, "max_tokens": 7}})).json()["choices"][0]
    assert (len(cut["token_ids"]), cut["finish_reason"]) == (7, "length")
    refused = await http.post("/inference/v1/generate", json={**body, "token_ids": [3, -1]})
    assert refused.json()["error"]["param"] == "token_ids[1]"


async def test_generation_from_token_ids_honours_minimum_and_ignored_end(http: httpx2.AsyncClient) -> None:
    async def generate(**params: Any) -> dict[str, Any]:
        body = {"token_ids": [72, 105], "sampling_params": params}
        answer = await http.post("/inference/v1/generate", json=body)
        assert answer.status_code == 200, answer.text
        assert "x-sandbox-ignored" not in answer.headers
        return answer.json()["choices"][0]

    unending = await generate(ignore_eos=True, max_tokens=1_000)
    assert (len(unending["token_ids"]), unending["finish_reason"]) == (1_000, "length")
    long = await generate(min_tokens=1_000)
    assert len(long["token_ids"]) >= 1_000
    assert long["finish_reason"] == "stop"


async def test_long_conversation_is_answered_and_does_not_delay_other_requests(http: httpx2.AsyncClient) -> None:
    """The conversation is as long as the longest that coding agents send before they shorten it: 200,000 tokens of a real model."""
    code = "def read(name: str) -> dict[str, Any]:\n    return json.loads(Path(name).read_text())\n"
    messages = [{"role": "user", "content": code * 9_000}]
    long = asyncio.create_task(chat(http, messages=messages, ignore_eos=True, max_tokens=100_000))
    delays_s: list[float] = []
    while not long.done():
        began = time.monotonic()
        await text_of(http)
        delays_s.append(time.monotonic() - began)
    answer = (await long).json()
    assert answer["usage"]["prompt_tokens"] > 300_000
    assert answer["usage"]["completion_tokens"] == 100_000
    assert len(delays_s) > 3, "the long request was answered before the others, or they waited for it"


async def test_slow_model_takes_two_seconds_and_streams_evenly(http: httpx2.AsyncClient) -> None:
    async def streamed() -> list[float]:
        began = time.monotonic()
        body = {"model": "sandbox-slow", "messages": HELLO, "stream": True}
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            return [time.monotonic() - began async for line in response.aiter_lines() if line]

    async def whole() -> float:
        began = time.monotonic()
        await text_of(http, model="sandbox-slow", guided_json=CITY)
        return time.monotonic() - began

    moments, took_s = await asyncio.gather(streamed(), whole())
    assert 1.9 < took_s < GENEROUS_S
    assert 1.9 < moments[-1] < GENEROUS_S
    assert 0.6 < moments[len(moments) // 2] < moments[-1] - 0.2
    assert moments[0] < moments[-1] - 1


async def test_flaky_model_fails_every_third_request_in_a_fixed_order(http: httpx2.AsyncClient) -> None:
    async def status_or_closed() -> int | str:
        try:
            response = await chat(http, model="sandbox-flaky")
        except httpx2.RemoteProtocolError:
            return "closed"
        assert ("retry-after" in response.headers) == (response.status_code == 503)
        return response.status_code

    assert [await status_or_closed() for _ in range(9)] == [200, 200, 500, 200, 200, 503, 200, 200, "closed"]


@pytest.mark.parametrize("stream", [True, False])
async def test_dying_model_breaks_off_midway(http: httpx2.AsyncClient, stream: bool) -> None:
    received = b""
    with pytest.raises(httpx2.RemoteProtocolError):
        async with http.stream(
            "POST", "/v1/chat/completions", json={"model": "sandbox-dies", "messages": HELLO, "stream": stream}
        ) as response:
            assert response.status_code == 200
            async for part in response.aiter_bytes():
                received += part
    assert b"sandbox" in received
    assert b'finish_reason":"stop' not in received


async def test_request_can_demand_a_failure(sdk: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as refusal:
        await sdk.chat.completions.create(model="sandbox", messages=HELLO, extra_body={"sandbox": {"fail": 429, "retry_after_s": 7}})
    assert refusal.value.response.headers["retry-after"] == "7"
    assert refusal.value.type == "rate_limit_error"
    with pytest.raises(openai.APIConnectionError):
        await sdk.chat.completions.create(model="sandbox", messages=HELLO, extra_body={"sandbox": {"fail": "close"}})
    with pytest.raises(openai.InternalServerError):
        await sdk.embeddings.create(model="sandbox-embed", input="x", extra_body={"sandbox": {"fail": 500}})


async def test_request_can_dictate_text_even_against_its_own_constraint(http: httpx2.AsyncClient) -> None:
    assert await text_of(http, guided_json=CITY, sandbox={"say": "no JSON at all"}) == "no JSON at all"
    answer = (await chat(http, sandbox={"say": "x", "finish_reason": "content_filter", "usage": False})).json()
    assert answer["choices"][0]["finish_reason"] == "content_filter"
    assert "usage" not in answer


async def test_request_can_demand_a_broken_stream(http: httpx2.AsyncClient) -> None:
    forgotten = await frames_of(http, messages=HELLO, sandbox={"say": "one two", "done": False})
    assert forgotten[-1]["choices"][0]["finish_reason"] == "stop"
    failed = await frames_of(http, messages=HELLO, sandbox={"say": "one two", "die_after": 2, "die_how": "error"})
    assert [list(frame) for frame in failed][-1] == ["error"]
    assert len(failed) == 3
    with pytest.raises(httpx2.RemoteProtocolError):
        await frames_of(http, messages=HELLO, sandbox={"die_after": 0})


async def test_requested_delays_are_kept(http: httpx2.AsyncClient) -> None:
    began = time.monotonic()
    frames = await frames_of(http, messages=HELLO, sandbox={"say": "one two", "delay_ms": 100, "chunk_delay_ms": 50})
    assert len(frames) == 5
    assert 0.28 < time.monotonic() - began < GENEROUS_S


@pytest.mark.parametrize(
    "body",
    [
        {"stream": True, "sandbox": {"chunk_delay_ms": 60_000}},
        {"sandbox": {"delay_ms": 60_000}},
        {"stream": True, "sandbox": {"die_after": 1, "die_how": "stall"}},
    ],
    ids=["while it streams", "before it answers", "while it stalls"],
)
async def test_client_disconnect_aborts_the_response_at_once(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    """The response is aborted long before it would be due."""
    aborted = 'sandbox_requests_total{model="sandbox",outcome="aborted"}'
    before = await metric(http, aborted)

    async def is_running() -> bool:
        return await metric(http, "sandbox_requests_running") == 1

    async def is_aborted() -> bool:
        return await metric(http, aborted) == before + 1

    request = asyncio.create_task(chat(http, **body))
    await wait_until(is_running)
    await asyncio.sleep(0.1)  # by now a stream has begun
    request.cancel()
    await wait_until(is_aborted, GENEROUS_S / 2)
    assert await metric(http, "sandbox_requests_running") == 0


async def test_hostile_constraint_does_not_delay_other_requests(http: httpx2.AsyncClient) -> None:
    hostile = {"guided_grammar": 'start: (a "z")*\na: a a | "x" | b\nb: a b | "x" | "y" b a', "sandbox": {"delay_ms": 0}}
    hostile_s: list[float] = []
    others_s: list[float] = []

    async def send_hostile(seed: int) -> None:
        began = time.monotonic()
        assert (await chat(http, seed=seed, **hostile)).status_code in (200, 400)
        hostile_s.append(time.monotonic() - began)

    async def send_others() -> None:
        for _ in range(10):
            began = time.monotonic()
            await text_of(http)
            others_s.append(time.monotonic() - began)

    await asyncio.gather(*(send_hostile(seed) for seed in range(2)), send_others())
    # A request that waited for a hostile one would take about as long: up to the sandbox's deadline of 3 s, and longer on a busy machine.
    assert max(others_s) < max(1.5, min(hostile_s) * 0.75), (others_s, hostile_s)


async def test_health_version_and_metrics_are_served(http: httpx2.AsyncClient) -> None:
    assert (await http.get("/health")).json()["status"] == "ok"
    assert (await http.get("/version")).json()["engine"] == "narthex-sandbox"
    before = await metric(http, 'sandbox_requests_total{model="sandbox",outcome="finished"}')
    running = asyncio.create_task(chat(http, sandbox={"delay_ms": 1000}))

    async def is_running() -> bool:
        return await metric(http, "sandbox_requests_running") == 1

    await wait_until(is_running)
    await running
    assert await metric(http, "sandbox_requests_running") == 0
    assert await metric(http, "sandbox_requests_waiting") == 0
    assert await metric(http, 'sandbox_requests_total{model="sandbox",outcome="finished"}') == before + 1
