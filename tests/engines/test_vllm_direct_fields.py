"""What our vLLM adapter relies on, seen on a real vLLM: which fields it reads in each of its dialects, by its own /openapi.json."""

import json
import re
from typing import Any

import httpx
import pytest

from providers.canonical.chat import ENGINE_FIELDS
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS
from tests.engines.asking import ask, told
from tests.engines.running_vllm import CONTEXT, Engine
from tests.engines.shapes import BOOKING, CHOICE, EBNF, ENOUGH_TOKENS, assert_booking, tool
from tests.engines.tiny_model import token_id

pytestmark = pytest.mark.engines

READERS = {
    "openai_chat": "ChatCompletionRequest",
    "openai_completions": "CompletionRequest",
    "openai_responses": "ResponsesRequest",
    "anthropic_messages": "AnthropicMessagesRequest",
}
# What the adapter says otherwise (chat_template_kwargs), and hints.
ELSEWHERE = {"enable_thinking"} | IGNORED_HINT_FIELDS
DIGIT = "root ::= [0-9]"
NAMED = {"type": "function", "function": {"name": "book"}}
BOOK = [tool("book", strict=True)]
FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
# Thinks, and stops thinking at once.
BRIEF: dict[str, Any] = {"chat_template_kwargs": {"thinking": True}, "logit_bias": {str(token_id("</think>")): 100}}


@pytest.fixture(scope="module")
def read(vllm: Engine) -> dict[str, set[str]]:
    """The fields that each dialect reads."""
    schemas = httpx.get(f"{vllm.base_url}/openapi.json").json()["components"]["schemas"]
    return {dialect: set(schemas[name]["properties"]) for dialect, name in READERS.items()}


@pytest.mark.parametrize("dialect", READERS)
def test_what_the_adapter_refuses_is_not_read(read: dict[str, set[str]], dialect: str):
    assert not (IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT[dialect]) & read[dialect]


@pytest.mark.parametrize("dialect", READERS)
def test_every_engines_word_that_is_not_read_is_refused_or_said_otherwise(read: dict[str, set[str]], dialect: str):
    passed_over = ENGINE_FIELDS - read[dialect] - IGNORED_FIELDS - IGNORED_FIELDS_BY_DIALECT[dialect] - ELSEWHERE
    # Where the request is routed: no answer is another without it.
    assert passed_over <= {"session_id"}


@pytest.mark.parametrize("field", sorted(IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT["openai_chat"]))
def test_an_unread_field_is_a_200_all_the_same(vllm: Engine, field: str):
    asked: dict[str, Any] = {field: "asked"}
    assert ask(vllm, **asked).status_code == 200


@pytest.mark.parametrize(
    "constraint", [{"response_format": FORMAT}, {"structured_outputs": {"choice": ["1", "2"]}}], ids=lambda each: next(iter(each))
)
def test_beside_a_constraint_a_free_choice_calls_nothing_and_a_demanded_call_forgets_it(vllm: Engine, constraint: dict[str, Any]):
    inclined = {"logit_bias": {str(token_id("<tool_call>")): 30}}
    free = told(vllm, tools=[tool("book", strict=False)], **constraint, **inclined)
    assert isinstance(json.loads(free["message"]["content"]), int)
    called = told(vllm, tools=BOOK, tool_choice="required", parallel_tool_calls=False, max_tokens=ENOUGH_TOKENS, **constraint)
    assert_booking(json.loads(called["message"]["tool_calls"][0]["function"]["arguments"]))


@pytest.mark.parametrize(
    "constraint",
    [
        {"response_format": FORMAT},
        *({"structured_outputs": each} for each in ({"choice": ["1", "2"]}, {"regex": "[0-9]"}, {"grammar": DIGIT})),
    ],
    ids=["json", "choice", "regex", "grammar"],
)
def test_beside_a_strict_tool_a_free_answer_is_a_call_or_obeys(vllm: Engine, constraint: dict[str, Any]):
    asked: dict[str, Any] = {"tools": BOOK, "parallel_tool_calls": True, "n": 8, "max_tokens": 64, **constraint}
    texts = [choice["message"]["content"] or "<tool_call>" for choice in ask(vllm, **asked).json()["choices"]]
    said = [text for text in texts if not text.startswith("<tool_call>")]
    assert said
    assert all(re.fullmatch("-?[0-9]+", text) for text in said)
    inclined = told(vllm, **asked | {"n": 1, "logit_bias": {str(token_id("<tool_call>")): 30}})
    assert inclined["message"]["content"].startswith("<tool_call>")


def test_a_demanded_call_forgets_a_grammar_too(vllm: Engine):
    choice = told(vllm, tools=BOOK, tool_choice=NAMED, structured_outputs={"grammar": EBNF}, max_tokens=ENOUGH_TOKENS)
    assert choice["message"]["tool_calls"]


def test_a_strict_tool_that_is_called_freely_is_held_to_its_schema(vllm: Engine):
    asked: dict[str, Any] = {"tools": BOOK, "logit_bias": {str(token_id("<tool_call>")): 30}, "max_tokens": CONTEXT // 4}
    text = told(vllm, **asked)["message"]["content"]
    first = text.split("<tool_call>")[1].partition("</tool_call>")[0]
    assert_booking(json.loads(first)["arguments"])
    loose = told(vllm, **asked | {"tools": [tool("book", strict=False)], "max_tokens": 40})["message"]["content"]
    assert "{" not in loose


def responded(vllm: Engine, **fields: Any) -> Any:
    body = {"model": vllm.model, "input": "hi", "max_output_tokens": ENOUGH_TOKENS} | fields
    answer = httpx.post(f"{vllm.base_url}/v1/responses", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def message_of(vllm: Engine, **fields: Any) -> Any:
    body = {"model": vllm.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": ENOUGH_TOKENS} | fields
    answer = httpx.post(f"{vllm.base_url}/v1/messages", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("more", [{}, BRIEF], ids=["plain", "after thinking"])
def test_responses_obey_their_own_words_for_a_schema(vllm: Engine, more: dict[str, Any]):
    """Not so in vllm-project/vllm#44012, beside a reasoning parser."""
    [item] = responded(vllm, text={"format": {"type": "json_schema", "name": "booking", "schema": BOOKING}}, **more)["output"][-1:]
    assert_booking(json.loads(item["content"][0]["text"]))


def test_messages_obey_output_config_and_pass_over_its_older_name(vllm: Engine):
    told_of = {"type": "json_schema", "schema": BOOKING}
    [block] = message_of(vllm, output_config={"format": told_of})["content"]
    assert_booking(json.loads(block["text"]))
    [block] = message_of(vllm, output_format=told_of, max_tokens=16)["content"]
    assert not block["text"].startswith("{")


def test_responses_and_messages_pass_over_engines_words_for_guided_decoding(vllm: Engine):
    told_of: dict[str, Any] = {"guided_choice": CHOICE}
    assert responded(vllm, **told_of, max_output_tokens=16)["output"][0]["content"][0]["text"] not in CHOICE
    for words in (told_of, {"structured_outputs": {"choice": CHOICE}}):
        assert message_of(vllm, **words, max_tokens=16)["content"][0]["text"] not in CHOICE


@pytest.mark.parametrize(
    "kind", [{"type": "web_search"}, {"type": "custom", "name": "x"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
)
def test_responses_pass_over_tools_that_are_no_functions(vllm: Engine, kind: dict[str, Any]):
    assert {item["type"] for item in responded(vllm, tools=[kind], max_output_tokens=16)["output"]} == {"message"}


def test_the_version_stands_in_every_answer(vllm: Engine):
    version = httpx.get(f"{vllm.base_url}/version").json()["version"]
    assert ask(vllm).json()["system_fingerprint"].startswith(f"vllm-{version}-")
