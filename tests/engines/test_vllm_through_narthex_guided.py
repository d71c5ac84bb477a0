"""Guided decoding and strict tools at a real vLLM, asked in each of three APIs and all of the words for it, whole and streamed.

The model is random: what obeys here does so because the engine was told in words that it obeys. What cannot be obeyed never gets there.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from msgspec import Struct

from tests.engines.running_narthex import MODEL, Gateway
from tests.engines.running_vllm import Engine
from tests.engines.shapes import BOOKING, CHOICE, EBNF, ENOUGH_TOKENS, LARK, REGEX, ROOM, assert_booking, tool
from tests.engines.tiny_model import token_id

pytestmark = pytest.mark.engines

TAG: dict[str, Any] = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<booking>", "content": {"type": "json_schema", "json_schema": BOOKING}, "end": "</booking>"},
}


class Heard(Struct):
    """`calls`: their arguments. `how`: x-narthex-guided."""

    text: str
    calls: list[str]
    how: str | None


class Caller:
    """One API. `schema`: how it says a JSON schema itself."""

    def __init__(self, path: str, asked: dict[str, Any], schema: dict[str, Any], tools: dict[str, Any]) -> None:
        self.path = path
        self.schema = schema
        self.tools = tools
        self._asked = asked

    def ask(self, client: httpx.Client, stream: bool, **more: Any) -> httpx.Response:
        return client.post(self.path, json={"model": MODEL, **self._asked, "stream": stream, **more})

    def hear(self, client: httpx.Client, stream: bool, **more: Any) -> Heard:
        answer = self.ask(client, stream, **more)
        assert answer.status_code == 200, answer.text
        text, calls = _READERS[self.path](_events(answer) if stream else [answer.json()])
        return Heard(text, calls, answer.headers.get("x-narthex-guided"))


def _events(answer: httpx.Response) -> list[Any]:
    told = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    events = [json.loads(each) for each in told if each != "[DONE]"]
    assert not any(event.get("error") for event in events), events[-1]
    return events


def _chat(events: list[Any]) -> tuple[str, list[str]]:
    said = [choice.get("delta", choice.get("message")) for event in events for choice in event["choices"]]
    calls: dict[int, str] = {}
    for place, call in ((call.get("index", at), call) for each in said for at, call in enumerate(each.get("tool_calls") or ())):
        calls[place] = calls.get(place, "") + (call["function"].get("arguments") or "")
    return "".join(each.get("content") or "" for each in said), list(calls.values())


def _responses(events: list[Any]) -> tuple[str, list[str]]:
    output = events[-1].get("response", events[-1])["output"]
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    return "".join(texts), [item["arguments"] for item in output if item["type"] == "function_call"]


def _messages(events: list[Any]) -> tuple[str, list[str]]:
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
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
}
HI = [{"role": "user", "content": "hi"}]
CHAT = Caller(
    "/chat/completions",
    {"messages": HI, "max_tokens": ENOUGH_TOKENS},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "booking", "schema": BOOKING, "strict": True}}},
    {"tools": [tool("book", strict=True)], "tool_choice": "required", "parallel_tool_calls": False},
)
RESPONSES = Caller(
    "/responses",
    {"input": "hi", "max_output_tokens": ENOUGH_TOKENS},
    {"text": {"format": {"type": "json_schema", "name": "booking", "schema": BOOKING, "strict": True}}},
    {
        "tools": [{"type": "function", "name": "book", "parameters": BOOKING, "strict": True}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
    },
)
MESSAGES = Caller(
    "/messages",
    {"messages": HI, "max_tokens": ENOUGH_TOKENS},
    {"output_config": {"format": {"type": "json_schema", "schema": BOOKING}}},
    {
        "tools": [{"name": "book", "input_schema": BOOKING, "strict": True}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    },
)
EACH_CALLER = pytest.mark.parametrize("caller", [CHAT, RESPONSES, MESSAGES], ids=["chat", "responses", "messages"])
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def client(narthex: Gateway) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=narthex.base_url, headers={"authorization": f"Bearer {narthex.key}"}, timeout=120) as client:
        yield client


def is_booking(text: str) -> None:
    assert_booking(json.loads(text))


def is_choice(text: str) -> None:
    assert text in CHOICE


def is_object(text: str) -> None:
    assert isinstance(json.loads(text), dict)


def is_tagged(text: str) -> None:
    assert text.startswith("<booking>")
    assert text.endswith("</booking>")
    is_booking(text.removeprefix("<booking>").removesuffix("</booking>"))


def matches(pattern: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        assert re.fullmatch(pattern, text)

    return check


WORDS: dict[str, tuple[dict[str, Any], Callable[[str], None]]] = {
    "guided_json": ({"guided_json": BOOKING}, is_booking),
    "guided_regex": ({"guided_regex": REGEX}, matches(REGEX)),
    "guided_choice": ({"guided_choice": CHOICE}, is_choice),
    "guided_grammar in Lark": ({"guided_grammar": LARK}, matches(ROOM)),
    "guided_grammar in GBNF": ({"guided_grammar": EBNF}, matches(ROOM)),
    "structural_tag": ({"structural_tag": TAG}, is_tagged),
    "structured_outputs.json": ({"structured_outputs": {"json": BOOKING}}, is_booking),
    "structured_outputs.regex": ({"structured_outputs": {"regex": REGEX}}, matches(REGEX)),
    "structured_outputs.choice": ({"structured_outputs": {"choice": CHOICE}}, is_choice),
    "structured_outputs.grammar": ({"structured_outputs": {"grammar": EBNF}}, matches(ROOM)),
    "structured_outputs.structural_tag": ({"structured_outputs": {"structural_tag": json.dumps(TAG)}}, is_tagged),
}

# As BOOKING, without bounds of numbers, which no regex says.
ROOMY: dict[str, Any] = {**BOOKING, "properties": {**BOOKING["properties"], "nights": {"enum": [1, 7, 14]}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"guided_json": ROOMY, "guided_whitespace_pattern": "[ ]{1,2}"},
        {"structured_outputs": {"json": ROOMY, "whitespace_pattern": "[ ]{1,2}"}},
    ],
    ids=["guided_whitespace_pattern", "structured_outputs"],
)
@EACH_CALLER
@STREAMED
def test_white_space_is_as_it_was_asked_for(client: httpx.Client, caller: Caller, fields: dict[str, Any], stream: bool):
    heard = caller.hear(client, stream, **fields)
    is_booking(heard.text)
    assert heard.text.startswith("{ ")
    assert re.search('" {1,2}: {1,2}(true|false) {1,2}}$', heard.text)
    assert heard.how == "converted"


@EACH_CALLER
@STREAMED
def test_any_object_is_one(client: httpx.Client, caller: Caller, stream: bool):
    heard = caller.hear(client, stream, structured_outputs={"json_object": True})
    assert heard.how == "enforced"
    assert heard.text.startswith("{")


@EACH_CALLER
@STREAMED
def test_a_dot_is_never_the_end_of_a_line(client: httpx.Client, caller: Caller, stream: bool):
    heard = caller.hear(client, stream, guided_regex=".{100}<end>")
    assert heard.text.endswith("<end>")
    assert "\n" not in heard.text
    assert heard.how == "converted"


@EACH_CALLER
@STREAMED
def test_what_the_engine_passes_over_in_a_schema_is_looked_at_before_a_caller_sees_it(client: httpx.Client, caller: Caller, stream: bool):
    schema = {"type": "integer", "minimum": 1, "maximum": 3, "not": {"enum": [1]}}
    # Some of these answers obey, and some do not.
    told = [caller.ask(client, stream, guided_json=schema, temperature=0.8 + each / 100) for each in range(12)]
    assert {answer.status_code for answer in told} == {200, 502}
    for answer in told:
        if answer.status_code == 200:
            assert answer.headers["x-narthex-guided"] == "validated"
            assert json.loads(_READERS[caller.path](_events(answer) if stream else [answer.json()])[0]) in (2, 3)
        else:
            assert "constraint_not_obeyed" in answer.text or answer.json()["type"] == "error"


@pytest.mark.parametrize("word", WORDS)
@EACH_CALLER
@STREAMED
def test_engines_words_are_obeyed_in_each_api(client: httpx.Client, caller: Caller, word: str, stream: bool):
    fields, check = WORDS[word]
    heard = caller.hear(client, stream, **fields)
    check(heard.text)
    assert heard.how == "enforced"


@EACH_CALLER
@STREAMED
def test_a_schema_in_each_apis_own_words_is_obeyed(client: httpx.Client, caller: Caller, stream: bool):
    heard = caller.hear(client, stream, **caller.schema)
    is_booking(heard.text)
    assert heard.how == "enforced"


@STREAMED
@pytest.mark.parametrize(
    ("caller", "fields", "check"),
    [
        (CHAT, {"response_format": TAG}, is_tagged),
        (CHAT, {"response_format": {"type": "json_object"}}, None),
        (RESPONSES, {"text": {"format": {"type": "json_object"}}}, None),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": BOOKING}}, is_booking),
    ],
    ids=["a tag as response_format", "any object in chat", "any object in responses", "the older output_format"],
)
def test_other_forms_of_an_apis_own_words_are_obeyed(
    client: httpx.Client, caller: Caller, fields: dict[str, Any], check: Callable[[str], None] | None, stream: bool
):
    heard = caller.hear(client, stream, **fields)
    assert heard.how == "enforced"
    if check is not None:
        check(heard.text)
    else:  # which a random model may not have come to the end of
        assert heard.text.startswith("{")


@EACH_CALLER
@STREAMED
def test_a_strict_tool_is_called_with_what_its_schema_says(client: httpx.Client, caller: Caller, stream: bool):
    [arguments] = caller.hear(client, stream, **caller.tools).calls
    is_booking(arguments)


def requests(vllm: Engine) -> float:
    """How many requests it has been sent, of whatever kind, by POST."""
    lines = httpx.get(f"{vllm.base_url}/metrics", timeout=10).text.splitlines()
    told = [line for line in lines if line.startswith("http_requests_total{") and 'method="POST"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) for line in told)


UNFIT: dict[str, tuple[dict[str, Any], int, str]] = {
    "a schema of no type": ({"guided_json": {"type": "nonsense"}}, 400, "guided_json"),
    "a regex that ends too early": ({"guided_regex": "("}, 400, "guided_regex"),
    "a regex that looks back": ({"guided_regex": r"(a)\1"}, 400, "guided_regex"),
    "a grammar that ends too early": ({"guided_grammar": "root ::= ("}, 400, "guided_grammar"),
    "nothing to choose from": ({"guided_choice": []}, 400, "guided_choice"),
    "two at once": ({"guided_choice": CHOICE, "guided_regex": "a"}, 400, "guided_"),
    "two in one": ({"structured_outputs": {"choice": CHOICE, "regex": "a"}}, 400, "structured_outputs"),
    "white space": ({"guided_json": BOOKING, "guided_whitespace_pattern": "[ ]"}, 422, "guided_whitespace_pattern"),
}


@pytest.mark.parametrize("unfit", UNFIT)
@EACH_CALLER
@STREAMED
def test_what_cannot_be_obeyed_never_gets_to_the_engine(client: httpx.Client, vllm: Engine, caller: Caller, unfit: str, stream: bool):
    fields, status, param = UNFIT[unfit]
    before = requests(vllm)
    refused = caller.ask(client, stream, **fields)
    assert refused.status_code == status, refused.text
    assert param in refused.text
    assert requests(vllm) == before


@EACH_CALLER
def test_tools_beside_a_schema_never_get_to_the_engine_unless_one_of_them_is_let_go(client: httpx.Client, vllm: Engine, caller: Caller):
    before = requests(vllm)
    refused = caller.ask(client, False, **caller.schema, **caller.tools)
    assert (refused.status_code, requests(vllm)) == (422, before)
    told = client.post(caller.path, json=_body(caller, refused), headers={"x-narthex-drop": "tools"})
    assert told.status_code == 200, told.text
    is_booking(_READERS[caller.path]([told.json()])[0])
    assert told.headers["x-narthex-dropped"] == "tools"


@STREAMED
def test_beside_a_strict_tool_a_free_answer_is_a_call_or_obeys(client: httpx.Client, stream: bool):
    tools = {"tools": [tool("book", strict=True)], "structured_outputs": {"choice": CHOICE}, "max_tokens": 32}
    said = [CHAT.hear(client, stream, seed=seed, **tools) for seed in range(8)]
    assert {heard.how for heard in said} == {"enforced"}
    texts = {heard.text for heard in said if not heard.calls and not heard.text.startswith("<tool_call>")}
    assert texts
    assert texts <= set(CHOICE)


def _body(caller: Caller, asked: httpx.Response) -> Any:
    return json.loads(asked.request.content)


@STREAMED
def test_a_schema_is_obeyed_after_thinking_in_responses_too(client: httpx.Client, stream: bool):
    """vllm-project/vllm#44012; a bias ends the thinking at once."""
    brief = {"chat_template_kwargs": {"thinking": True}, "logit_bias": {str(token_id("</think>")): 100}}
    for caller in (CHAT, RESPONSES):
        is_booking(caller.hear(client, stream, **caller.schema, **brief).text)
