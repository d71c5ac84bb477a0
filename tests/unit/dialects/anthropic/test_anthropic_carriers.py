"""Carriers forged by callers: whatever they hold, the chat is written for Anthropic or refused, and nothing breaks."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.carrier import encode_carrier
from providers.canonical.chat import Opaque, OpaqueState, Reasoning
from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.dialect import ChatDialect
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_responses import OpenAIResponses
from providers.drop_policy import DropPolicy
from tests.support.strategies.chat_strategies import bounded

DIALECT = AnthropicMessages()
HI = {"role": "user", "content": "Hi"}

keys = st.sampled_from(["type", "call", "seal", "raw", "start"])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "reasoning", "redacted_thinking", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=5,
)
carrier_payloads = values.map(json.dumps) | st.sampled_from(["", "{", "[" * 5000, '{"type":' + "[" * 5000, '{"a":' * 5000])
origins = st.sampled_from(["openai_chat", "openai_responses", "anthropic_messages", "gemini", ""])


def through_openai_chat(data: str) -> tuple[ChatDialect, dict[str, Any]]:
    detail = {"type": "reasoning.encrypted", "data": data}
    return OpenAIChat(), {"messages": [HI, {"role": "assistant", "content": "Ho", "reasoning_details": [detail]}, HI]}


def through_openai_responses(data: str) -> tuple[ChatDialect, dict[str, Any]]:
    item: dict[str, Any] = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": data}
    return OpenAIResponses(), {"input": [HI, item, {"role": "assistant", "content": "Ho"}, HI]}


def through_anthropic_messages(data: str) -> tuple[ChatDialect, dict[str, Any]]:
    citation = {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "c", "encrypted_index": data}
    blocks = [
        {"type": "thinking", "thinking": "", "signature": data},
        {"type": "redacted_thinking", "data": data},
        {"type": "text", "text": "Ho", "citations": [citation]},
    ]
    return DIALECT, {"max_tokens": 9, "messages": [HI, {"role": "assistant", "content": blocks}, HI]}


@bounded
@given(carrier_payloads, origins, st.sampled_from([through_openai_chat, through_openai_responses, through_anthropic_messages]))
def test_forged_carriers_never_break_the_anthropic_request(data: str, origin: str, build_request: Any) -> None:
    caller, fields = build_request(encode_carrier(OpaqueState(origin, data), caller_dialect="nobody"))
    chat = caller.read_request(caller.parse_request(json.dumps({"model": "m", **fields}).encode()).body)
    drop_policy = DropPolicy(lambda _: True, caller.field_names, "a host")
    assert Body.read(DIALECT.write_request(chat, drop_policy).write()).has_value("messages")


@pytest.mark.parametrize("block", ['{"type":5}', '{"type":["x"]}', '{"type":{"type":"x"}}'])
def test_carried_block_with_a_non_string_type_is_dropped_and_reported(block: str) -> None:
    caller, fields = through_openai_chat(encode_carrier(OpaqueState("openai_chat", block), caller_dialect="nobody"))
    chat = caller.read_request(caller.parse_request(json.dumps({"model": "m", **fields}).encode()).body)
    drop_policy = DropPolicy(lambda _: True, caller.field_names, "a host")
    DIALECT.write_request(chat, drop_policy)
    assert len(drop_policy.dropped) == 1


@pytest.mark.parametrize("data", ['{"type":5}', '{"type":null}', '{"type":""}', '[{"type":"x"}]', "5", '{"a":' * 5000])
def test_carried_data_without_a_type_stays_opaque_state(data: str) -> None:
    _, fields = through_anthropic_messages(encode_carrier(OpaqueState("openai_chat", data), caller_dialect=DIALECT.name))
    parts = DIALECT.read_request(DIALECT.parse_request(json.dumps({"model": "m", **fields}).encode()).body).messages[1].parts
    assert parts[1] == Reasoning("", OpaqueState("openai_chat", data))


def test_block_of_another_dialect_is_refused_by_anthropic() -> None:
    _, fields = through_openai_chat(encode_carrier(OpaqueState("openai_responses", '{"type":"file_search_call"}'), caller_dialect="nobody"))
    chat = OpenAIChat().read_request(OpenAIChat().parse_request(json.dumps({"model": "m", **fields}).encode()).body)
    assert any(isinstance(part, Opaque) for part in chat.messages[1].parts)
    with pytest.raises(Unsupported):
        DIALECT.write_request(chat, DropPolicy(lambda _: False, {}, "a host"))
