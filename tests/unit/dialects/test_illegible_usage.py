"""Usage whose counts cannot be read is as good as none, in every API: the caller is shown an estimate, and it is charged."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from providers.canonical.chat import Usage
from providers.canonical.raw_json import NULL
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.anthropic_messages.usage import read_counts, to_usage
from providers.dialects.bedrock_converse.usage import read_usage as read_usage_of_converse
from providers.dialects.cohere_chat.response_schema import Counts, UsageReport
from providers.dialects.cohere_chat.usage import read_usage as read_usage_of_cohere
from providers.dialects.gemini.usage import UsageMetadata
from providers.dialects.gemini.usage import read_usage as read_usage_of_gemini
from providers.dialects.openai.usage import normalize_usage
from providers.dialects.openai.usage import read_usage as read_usage_of_chat
from providers.dialects.openai_chat import OpenAIChat
from providers.dialects.openai_completions import OpenAICompletions
from providers.dialects.openai_responses.usage import read_usage as read_usage_of_responses
from providers.dialects.tensorzero_inference.usage import WireUsage
from providers.dialects.tensorzero_inference.usage import read_usage as read_usage_of_tensorzero
from providers.dialects.tgi_generate.response_schema import Details
from providers.dialects.tgi_generate.usage import read_usage as read_usage_of_generate
from tests.support.strategies.chat_strategies import META, parse_sse_chunks


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


READERS: dict[str, Callable[[], Usage | None]] = {
    "chat": lambda: read_usage_of_chat(raw({"prompt_tokens": -1, "completion_tokens": 2**60})),
    "chat with details": lambda: read_usage_of_chat(raw({"prompt_tokens_details": {"cached_tokens": 3}})),
    "chat relayed": lambda: normalize_usage(raw({"tokens": 3}))[0],
    "responses": lambda: read_usage_of_responses(raw({"input_tokens": -1}), "flex", {"web_search": 1}),
    "messages": lambda: to_usage(read_counts(raw({"input_tokens": -1, "service_tier": "batch"}))),
    "converse": lambda: read_usage_of_converse(raw({"inputTokens": -1, "totalTokens": 3}), NULL),
    "cohere": lambda: read_usage_of_cohere(UsageReport(tokens=Counts(input_tokens=-1))),
    "gemini": lambda: read_usage_of_gemini(UsageMetadata(promptTokenCount=-1, totalTokenCount=3)),
    "tgi": lambda: read_usage_of_generate(Details(generated_tokens=-1)),
    "tensorzero": lambda: read_usage_of_tensorzero(WireUsage(None, None)),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_usage_without_legible_counts_is_none(read: Callable[[], Usage | None]) -> None:
    assert read() is None


def test_usage_with_a_cost_alone_is_kept() -> None:
    assert read_usage_of_chat(raw({"cost_in_usd_ticks": 70_000})) == Usage(host_cost_microusd=7)


CHAT = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
COMPLETION = {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}
MESSAGE = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}


@pytest.mark.parametrize(
    ("dialect", "body"),
    [(OpenAIChat(), CHAT), (OpenAICompletions(), COMPLETION), (AnthropicMessages(), MESSAGE)],
    ids=["chat", "completions", "messages"],
)
def test_caller_of_an_answer_with_illegible_usage_is_shown_an_estimate(dialect: Any, body: dict[str, Any]) -> None:
    edited = dialect.edit_response(json.dumps({**body, "usage": {"input_tokens": -1, "prompt_tokens": -1}}).encode(), META)
    assert edited.usage is None and edited.written_tokens == 1
    assert json.loads(edited.raw)["usage"]["estimated"] is True


def test_caller_of_a_stream_with_illegible_usage_is_shown_an_estimate() -> None:
    editor = OpenAIChat().stream_editor(META)
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": -1}},
    ]
    out = editor.feed(b"".join(b"data: %b\n\n" % json.dumps(each).encode() for each in chunks)) + editor.finish()
    assert editor.usage is None
    assert [chunk["usage"].get("estimated") for chunk in parse_sse_chunks(out) if chunk.get("usage")] == [True]
