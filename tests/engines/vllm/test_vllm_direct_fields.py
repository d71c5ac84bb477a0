"""Facts on which the vLLM adapter relies, checked at a real vLLM: the fields that it reads in each dialect, by its own /openapi.json."""

import json
import re
from typing import Any

import httpx2
import pytest

from providers.engines.vllm.adapter import VLLM
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS
from providers.fields import ENGINE_FIELDS
from tests.engines.constraint_samples import BOOKING, CHOICE, EBNF, SUFFICIENT_TOKENS, assert_booking, booking_tool
from tests.engines.direct_requests import chat_choice, post_chat
from tests.engines.tiny_model import token_id
from tests.engines.vllm.running_vllm import CONTEXT, Engine

pytestmark = pytest.mark.engines

REQUEST_SCHEMAS = {
    "openai_chat": "ChatCompletionRequest",
    "openai_completions": "CompletionRequest",
    "openai_responses": "ResponsesRequest",
    "anthropic_messages": "AnthropicMessagesRequest",
}
# Fields that the adapter translates (to chat_template_kwargs, or to another name), and hints.
TRANSLATED_OR_HINTS = {"enable_thinking", *VLLM.renamed_fields} | IGNORED_HINT_FIELDS
DIGIT_GRAMMAR = "root ::= [0-9]"
NAMED_TOOL_CHOICE = {"type": "function", "function": {"name": "book"}}
STRICT_TOOLS = [booking_tool("book", strict=True)]
INTEGER_FORMAT = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "integer"}}}
# Thinks, and ends the thinking at once.
ENDS_THINKING_AT_ONCE: dict[str, Any] = {"chat_template_kwargs": {"thinking": True}, "logit_bias": {str(token_id("</think>")): 100}}


@pytest.fixture(scope="module")
def read_fields(vllm: Engine) -> dict[str, set[str]]:
    """The fields that each dialect reads."""
    schemas = httpx2.get(f"{vllm.base_url}/openapi.json").json()["components"]["schemas"]
    return {dialect: set(schemas[name]["properties"]) for dialect, name in REQUEST_SCHEMAS.items()}


@pytest.mark.parametrize("dialect", REQUEST_SCHEMAS)
def test_refused_fields_are_not_in_vllms_schema(read_fields: dict[str, set[str]], dialect: str):
    assert not (IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT[dialect]) & read_fields[dialect]


@pytest.mark.parametrize("dialect", REQUEST_SCHEMAS)
def test_engine_fields_missing_from_vllms_schema_are_refused_or_translated(read_fields: dict[str, set[str]], dialect: str):
    unhandled = ENGINE_FIELDS - read_fields[dialect] - IGNORED_FIELDS - IGNORED_FIELDS_BY_DIALECT[dialect] - TRANSLATED_OR_HINTS
    # session_id only selects a worker: responses do not depend on it.
    assert unhandled <= {"session_id"}


@pytest.mark.parametrize("field", sorted(IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT["openai_chat"]))
def test_field_that_vllm_does_not_read_is_accepted(vllm: Engine, field: str):
    fields: dict[str, Any] = {field: "a value"}
    assert post_chat(vllm, **fields).status_code == 200


@pytest.mark.parametrize(
    "constraint", [{"response_format": INTEGER_FORMAT}, {"structured_outputs": {"choice": ["1", "2"]}}], ids=lambda each: next(iter(each))
)
def test_constraint_beside_tools_rules_out_free_calls_and_is_dropped_by_required_ones(vllm: Engine, constraint: dict[str, Any]):
    call_bias = {"logit_bias": {str(token_id("<tool_call>")): 30}}
    free = chat_choice(vllm, tools=[booking_tool("book", strict=False)], **constraint, **call_bias)
    assert isinstance(json.loads(free["message"]["content"]), int)
    called = chat_choice(
        vllm, tools=STRICT_TOOLS, tool_choice="required", parallel_tool_calls=False, max_tokens=SUFFICIENT_TOKENS, **constraint
    )
    assert_booking(json.loads(called["message"]["tool_calls"][0]["function"]["arguments"]))


@pytest.mark.parametrize(
    "constraint",
    [
        {"response_format": INTEGER_FORMAT},
        *({"structured_outputs": each} for each in ({"choice": ["1", "2"]}, {"regex": "[0-9]"}, {"grammar": DIGIT_GRAMMAR})),
    ],
    ids=["json", "choice", "regex", "grammar"],
)
def test_constraint_beside_a_strict_tool_allows_a_call_or_a_conforming_answer(vllm: Engine, constraint: dict[str, Any]):
    fields: dict[str, Any] = {"tools": STRICT_TOOLS, "parallel_tool_calls": True, "n": 8, "max_tokens": 64, **constraint}
    texts = [choice["message"]["content"] or "<tool_call>" for choice in post_chat(vllm, **fields).json()["choices"]]
    answers = [text for text in texts if not text.startswith("<tool_call>")]
    assert answers
    assert all(re.fullmatch("-?[0-9]+", text) for text in answers)
    call_bias = chat_choice(vllm, **fields | {"n": 1, "logit_bias": {str(token_id("<tool_call>")): 30}})
    assert call_bias["message"]["content"].startswith("<tool_call>")


def test_named_tool_choice_overrides_a_grammar(vllm: Engine):
    choice = chat_choice(
        vllm, tools=STRICT_TOOLS, tool_choice=NAMED_TOOL_CHOICE, structured_outputs={"grammar": EBNF}, max_tokens=SUFFICIENT_TOKENS
    )
    assert choice["message"]["tool_calls"]


def test_freely_called_strict_tool_obeys_its_schema(vllm: Engine):
    fields: dict[str, Any] = {"tools": STRICT_TOOLS, "logit_bias": {str(token_id("<tool_call>")): 30}, "max_tokens": CONTEXT // 4}
    text = chat_choice(vllm, **fields)["message"]["content"]
    first = text.split("<tool_call>")[1].partition("</tool_call>")[0]
    assert_booking(json.loads(first)["arguments"])
    loose = chat_choice(vllm, **fields | {"tools": [booking_tool("book", strict=False)], "max_tokens": 40})["message"]["content"]
    assert "{" not in loose


def post_responses(vllm: Engine, **fields: Any) -> Any:
    body = {"model": vllm.model, "input": "hi", "max_output_tokens": SUFFICIENT_TOKENS} | fields
    answer = httpx2.post(f"{vllm.base_url}/v1/responses", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


def post_messages(vllm: Engine, **fields: Any) -> Any:
    body = {"model": vllm.model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": SUFFICIENT_TOKENS} | fields
    answer = httpx2.post(f"{vllm.base_url}/v1/messages", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("more", [{}, ENDS_THINKING_AT_ONCE], ids=["plain", "after thinking"])
def test_responses_text_format_schema_is_enforced(vllm: Engine, more: dict[str, Any]):
    """It is enforced with a reasoning parser, too, where vllm-project/vllm#44012 reported that it is not."""
    [item] = post_responses(vllm, text={"format": {"type": "json_schema", "name": "booking", "schema": BOOKING}}, **more)["output"][-1:]
    assert_booking(json.loads(item["content"][0]["text"]))


def test_messages_output_config_is_enforced_and_output_format_ignored(vllm: Engine):
    schema_format = {"type": "json_schema", "schema": BOOKING}
    [block] = post_messages(vllm, output_config={"format": schema_format})["content"]
    assert_booking(json.loads(block["text"]))
    [block] = post_messages(vllm, output_format=schema_format, max_tokens=16)["content"]
    assert not block["text"].startswith("{")


def test_responses_and_messages_ignore_guided_decoding_fields(vllm: Engine):
    guided_fields: dict[str, Any] = {"guided_choice": CHOICE}
    assert post_responses(vllm, **guided_fields, max_output_tokens=16)["output"][0]["content"][0]["text"] not in CHOICE
    for constraint in (guided_fields, {"structured_outputs": {"choice": CHOICE}}):
        assert post_messages(vllm, **constraint, max_tokens=16)["content"][0]["text"] not in CHOICE


@pytest.mark.parametrize(
    "kind", [{"type": "web_search"}, {"type": "custom", "name": "x"}, {"type": "code_interpreter", "container": {"type": "auto"}}]
)
def test_responses_ignore_tools_other_than_functions(vllm: Engine, kind: dict[str, Any]):
    assert {item["type"] for item in post_responses(vllm, tools=[kind], max_output_tokens=16)["output"]} == {"message"}


def test_system_fingerprint_contains_the_version(vllm: Engine):
    version = httpx2.get(f"{vllm.base_url}/version").json()["version"]
    assert post_chat(vllm).json()["system_fingerprint"].startswith(f"vllm-{version}-")
