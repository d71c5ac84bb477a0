"""Guided decoding and strict tools with a real vLLM, in all three APIs and with all constraint fields, streamed and not.

The model is random: output is valid only because the engine receives fields that it enforces. Constraints that it cannot enforce the
gateway refuses.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from msgspec import Struct

from tests.engines.constraint_samples import BOOKING, CHOICE, EBNF, LARK, REGEX, ROOM_REGEX, SUFFICIENT_TOKENS, assert_booking, booking_tool
from tests.engines.running_narthex import MODEL, Gateway
from tests.engines.tiny_model import token_id
from tests.engines.vllm.running_vllm import Engine

pytestmark = pytest.mark.engines

STRUCTURAL_TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<booking>", "content": {"type": "json_schema", "json_schema": BOOKING}, "end": "</booking>"},
}


class CallerResponse(Struct):
    """A caller's response. `calls`: the arguments of its tool calls. `constraint_mode`: the header x-narthex-guided."""

    text: str
    calls: list[str]
    constraint_mode: str | None


class Caller:
    """A caller of one API. `schema`: a JSON schema in the API's own field. `tools`: a required strict tool."""

    def __init__(self, path: str, base_fields: dict[str, Any], schema: dict[str, Any], tools: dict[str, Any]) -> None:
        self.path = path
        self.schema = schema
        self.tools = tools
        self._base_fields = base_fields

    def post(self, client: httpx2.Client, stream: bool, **more: Any) -> httpx2.Response:
        return client.post(self.path, json={"model": MODEL, **self._base_fields, "stream": stream, **more})

    def read_response(self, client: httpx2.Client, stream: bool, **more: Any) -> CallerResponse:
        answer = self.post(client, stream, **more)
        assert answer.status_code == 200, answer.text
        text, calls = _READERS[self.path](_events(answer) if stream else [answer.json()])
        return CallerResponse(text, calls, answer.headers.get("x-narthex-guided"))


def _events(answer: httpx2.Response) -> list[Any]:
    data_lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(each) for each in data_lines if each != "[DONE]"]
    assert not any(event.get("error") for event in events), events[-1]
    return events


def _read_chat(events: list[Any]) -> tuple[str, list[str]]:
    messages = [choice.get("delta", choice.get("message")) for event in events for choice in event["choices"]]
    calls: dict[int, str] = {}
    for index, call in ((call.get("index", at), call) for each in messages for at, call in enumerate(each.get("tool_calls") or ())):
        calls[index] = calls.get(index, "") + (call["function"].get("arguments") or "")
    return "".join(each.get("content") or "" for each in messages), list(calls.values())


def _read_responses(events: list[Any]) -> tuple[str, list[str]]:
    output = events[-1].get("response", events[-1])["output"]
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    return "".join(texts), [item["arguments"] for item in output if item["type"] == "function_call"]


def _read_messages(events: list[Any]) -> tuple[str, list[str]]:
    if "content" in events[0]:
        blocks = events[0]["content"]
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        return "".join(texts), [json.dumps(block["input"]) for block in blocks if block["type"] == "tool_use"]
    deltas = [(event["index"], event["delta"]) for event in events if event["type"] == "content_block_delta"]
    calls: dict[int, str] = {}
    for at, delta in deltas:
        if delta["type"] == "input_json_delta":
            calls[at] = calls.get(at, "") + delta["partial_json"]
    return "".join(delta["text"] for _, delta in deltas if delta["type"] == "text_delta"), list(calls.values())


_READERS: dict[str, Callable[[list[Any]], tuple[str, list[str]]]] = {
    "/chat/completions": _read_chat,
    "/responses": _read_responses,
    "/messages": _read_messages,
}
HI = [{"role": "user", "content": "hi"}]
CHAT = Caller(
    "/chat/completions",
    {"messages": HI, "max_tokens": SUFFICIENT_TOKENS},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING, "strict": True}}},
    {"tools": [booking_tool("book", strict=True)], "tool_choice": "required", "parallel_tool_calls": False},
)
RESPONSES = Caller(
    "/responses",
    {"input": "hi", "max_output_tokens": SUFFICIENT_TOKENS},
    {"text": {"format": {"type": "json_schema", "name": "booking", "schema": BOOKING, "strict": True}}},
    {
        "tools": [{"type": "function", "name": "book", "parameters": BOOKING, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    },
)
MESSAGES = Caller(
    "/messages",
    {"messages": HI, "max_tokens": SUFFICIENT_TOKENS},
    {"output_config": {"format": {"type": "json_schema", "schema": BOOKING}}},
    {
        "tools": [{"name": "book", "input_schema": BOOKING, "strict": True}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    },
)
EACH_CALLER = pytest.mark.parametrize("caller", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["unstreamed", "streamed"])


@pytest.fixture(scope="module")
def client(narthex: Gateway) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=narthex.base_url, headers={"authorization": f"Bearer {narthex.key}"}, timeout=120) as client:
        yield client


def assert_booking_text(text: str) -> None:
    assert_booking(json.loads(text))


def assert_choice(text: str) -> None:
    assert text in CHOICE


def assert_object(text: str) -> None:
    assert isinstance(json.loads(text), dict)


def assert_tagged_booking(text: str) -> None:
    assert text.startswith("<booking>")
    assert text.endswith("</booking>")
    assert_booking_text(text.removeprefix("<booking>").removesuffix("</booking>"))


def assert_matching(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


CONSTRAINT_FIELDS: dict[str, tuple[dict[str, Any], Callable[[str], None]]] = {
    "guided_json": ({"guided_json": BOOKING}, assert_booking_text),
    "guided_regex": ({"guided_regex": REGEX}, assert_matching(REGEX)),
    "guided_choice": ({"guided_choice": CHOICE}, assert_choice),
    "guided_grammar in Lark": ({"guided_grammar": LARK}, assert_matching(ROOM_REGEX)),
    "guided_grammar in GBNF": ({"guided_grammar": EBNF}, assert_matching(ROOM_REGEX)),
    "structural_tag": ({"structural_tag": STRUCTURAL_TAG}, assert_tagged_booking),
    "structured_outputs.json": ({"structured_outputs": {"json": BOOKING}}, assert_booking_text),
    "structured_outputs.regex": ({"structured_outputs": {"regex": REGEX}}, assert_matching(REGEX)),
    "structured_outputs.choice": ({"structured_outputs": {"choice": CHOICE}}, assert_choice),
    "structured_outputs.grammar": ({"structured_outputs": {"grammar": EBNF}}, assert_matching(ROOM_REGEX)),
    "structured_outputs.structural_tag": ({"structured_outputs": {"structural_tag": json.dumps(STRUCTURAL_TAG)}}, assert_tagged_booking),
}

# BOOKING without bounds of numbers, which a regex cannot express.
BOOKING_WITHOUT_BOUNDS: dict[str, Any] = {**BOOKING, "properties": {**BOOKING["properties"], "nights": {"enum": [1, 7, 14]}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": BOOKING_WITHOUT_BOUNDS, "guided_whitespace_pattern": "[ ]{1,2}"},
        {"structured_outputs": {"json": BOOKING_WITHOUT_BOUNDS, "whitespace_pattern": "[ ]{1,2}"}},
    ],
    ids=["guided_whitespace_pattern", "structured_outputs"],
)
@EACH_CALLER
@STREAMED
def test_whitespace_pattern_is_converted_and_enforced(client: httpx2.Client, caller: Caller, fields: dict[str, Any], stream: bool):
    response = caller.read_response(client, stream, **fields)
    assert_booking_text(response.text)
    assert response.text.startswith("{ ")
    assert re.search('" {1,2}: {1,2}(true|false) {1,2}}$', response.text)
    assert response.constraint_mode == "converted"


@EACH_CALLER
@STREAMED
def test_json_object_constraint_is_enforced(client: httpx2.Client, caller: Caller, stream: bool):
    response = caller.read_response(client, stream, structured_outputs={"json_object": True})
    assert response.constraint_mode == "enforced"
    assert response.text.startswith("{")


@EACH_CALLER
@STREAMED
def test_regex_dot_does_not_match_a_newline(client: httpx2.Client, caller: Caller, stream: bool):
    response = caller.read_response(client, stream, guided_regex=".{100}<end>")
    assert response.text.endswith("<end>")
    assert "\n" not in response.text
    assert response.constraint_mode == "converted"


@EACH_CALLER
@STREAMED
def test_schema_keywords_the_engine_ignores_are_validated_by_the_gateway(client: httpx2.Client, caller: Caller, stream: bool):
    schema = {"type": "integer", "minimum": 1, "maximum": 3, "not": {"enum": [1]}}
    # A third of these responses violate the schema: a hundred that all obey it are not by chance.
    answers: list[httpx2.Response] = []
    while {answer.status_code for answer in answers} != {200, 502} and len(answers) < 100:
        answers.append(caller.post(client, stream, guided_json=schema, temperature=0.8 + len(answers) / 1000))
    assert {answer.status_code for answer in answers} == {200, 502}
    for answer in answers:
        if answer.status_code == 200:
            assert answer.headers["x-narthex-guided"] == "validated"
            assert json.loads(_READERS[caller.path](_events(answer) if stream else [answer.json()])[0]) in (2, 3)
        else:
            assert "constraint_violation" in answer.text or answer.json()["type"] == "error"


@pytest.mark.parametrize("field", CONSTRAINT_FIELDS)
@EACH_CALLER
@STREAMED
def test_engine_constraint_fields_are_enforced_in_each_api(client: httpx2.Client, caller: Caller, field: str, stream: bool):
    fields, check = CONSTRAINT_FIELDS[field]
    response = caller.read_response(client, stream, **fields)
    check(response.text)
    assert response.constraint_mode == "enforced"


@EACH_CALLER
@STREAMED
def test_schema_in_each_apis_native_field_is_enforced(client: httpx2.Client, caller: Caller, stream: bool):
    response = caller.read_response(client, stream, **caller.schema)
    assert_booking_text(response.text)
    assert response.constraint_mode == "enforced"


@STREAMED
@pytest.mark.parametrize(
    ("caller", "fields", "check"),
    [
        (CHAT, {"response_format": STRUCTURAL_TAG}, assert_tagged_booking),
        (CHAT, {"response_format": {"type": "json_object"}}, None),
        (RESPONSES, {"text": {"format": {"type": "json_object"}}}, None),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": BOOKING}}, assert_booking_text),
    ],
    ids=["a tag as response_format", "any object in chat", "any object in responses", "the older output_format"],
)
def test_other_native_constraint_forms_are_enforced(
    client: httpx2.Client, caller: Caller, fields: dict[str, Any], check: Callable[[str], None] | None, stream: bool
):
    response = caller.read_response(client, stream, **fields)
    assert response.constraint_mode == "enforced"
    if check is not None:
        check(response.text)
    else:  # a random model may not reach the end of an object
        assert response.text.startswith("{")


@EACH_CALLER
@STREAMED
def test_strict_tool_call_obeys_its_schema(client: httpx2.Client, caller: Caller, stream: bool):
    [arguments] = caller.read_response(client, stream, **caller.tools).calls
    assert_booking_text(arguments)


def posts_received(vllm: Engine) -> float:
    """The number of POST requests that it has received."""
    lines = httpx2.get(f"{vllm.base_url}/metrics", timeout=60).text.splitlines()
    counters = [line for line in lines if line.startswith("http_requests_total{") and 'method="POST"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in counters)


INVALID_CONSTRAINTS: dict[str, tuple[dict[str, Any], int, str]] = {
    "a schema of an unknown type": ({"guided_json": {"type": "nonsense"}}, 400, "guided_json"),
    "an incomplete regex": ({"guided_regex": "("}, 400, "guided_regex"),
    "a regex with a backreference": ({"guided_regex": r"(a)\1"}, 400, "guided_regex"),
    "an incomplete grammar": ({"guided_grammar": "root ::= ("}, 400, "guided_grammar"),
    "an empty choice": ({"guided_choice": []}, 400, "guided_choice"),
    "two at once": ({"guided_choice": CHOICE, "guided_regex": "a"}, 400, "guided_"),
    "two in one": ({"structured_outputs": {"choice": CHOICE, "regex": "a"}}, 400, "structured_outputs"),
    "white space": ({"guided_json": BOOKING, "guided_whitespace_pattern": "[ ]"}, 422, "guided_whitespace_pattern"),
}


@pytest.mark.parametrize("name", INVALID_CONSTRAINTS)
@EACH_CALLER
@STREAMED
def test_invalid_constraint_is_refused_before_the_engine_is_called(
    client: httpx2.Client, vllm: Engine, caller: Caller, name: str, stream: bool
):
    fields, status, param = INVALID_CONSTRAINTS[name]
    before = posts_received(vllm)
    refused = caller.post(client, stream, **fields)
    assert refused.status_code == status, refused.text
    assert param in refused.text
    assert posts_received(vllm) == before


@EACH_CALLER
def test_demanded_call_beside_a_schema_is_made_unless_tools_are_dropped(client: httpx2.Client, caller: Caller):
    called = caller.post(client, False, **caller.schema, **caller.tools)
    assert called.status_code == 200 and called.headers["x-narthex-emulated"] in ("response_format", "text.format", "output_config.format")
    [arguments] = _READERS[caller.path]([called.json()])[1]
    assert_booking_text(arguments)
    answer = client.post(caller.path, json=_body(caller, called), headers={"x-narthex-drop": "tools"})
    assert answer.status_code == 200, answer.text
    assert_booking_text(_READERS[caller.path]([answer.json()])[0])
    assert answer.headers["x-narthex-dropped"] == "tools"


@STREAMED
def test_constraint_beside_a_strict_tool_allows_a_call_or_a_conforming_answer(client: httpx2.Client, stream: bool):
    tools = {"tools": [booking_tool("book", strict=True)], "structured_outputs": {"choice": CHOICE}, "max_tokens": 32}
    responses = [CHAT.read_response(client, stream, seed=seed, **tools) for seed in range(8)]
    assert {response.constraint_mode for response in responses} == {"enforced"}
    texts = {response.text for response in responses if not response.calls and not response.text.startswith("<tool_call>")}
    assert texts
    assert texts <= set(CHOICE)


def _body(caller: Caller, answer: httpx2.Response) -> Any:
    return json.loads(answer.request.content)


@STREAMED
def test_schema_is_enforced_after_thinking_in_chat_and_responses(client: httpx2.Client, stream: bool):
    """A logit bias ends the thinking at once; see vllm-project/vllm#44012."""
    brief = {"chat_template_kwargs": {"thinking": True}, "logit_bias": {str(token_id("</think>")): 100}}
    for caller in (CHAT, RESPONSES):
        assert_booking_text(caller.read_response(client, stream, **caller.schema, **brief).text)
