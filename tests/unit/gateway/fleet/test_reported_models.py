"""The model that a host names in its response is read in every dialect, recorded, and priced if it has a price of its own."""

import json
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from app.domain.exchange import Attempt, Exchange
from app.domain.prices import Price
from app.domain.routing import ModelConfig, Target
from app.domain.snapshot import Plan
from app.gateway.response_translation.translate import make_assembler, make_stream_editor, translate_response
from app.gateway.state.charges import cost_of
from app.gateway.state.stages import Attempted, Planned
from app.gateway.upstream.call import UpstreamCall
from app.gateway.upstream.progress import ResponseProgress
from app.recording.rows.inference_rows import inference_row
from app.recording.spool.exchange_encoding import decode_exchange, encode_exchange
from app.store.configuration.snapshots import build_snapshot
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from providers.canonical.chat import Usage
from providers.canonical.model_names import read_model_name
from providers.canonical.raw_json import Body
from providers.catalogue import DIALECTS
from providers.credentials.masking import SecretMask
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import ENGINE_DIALECTS
from tests.support.spooled_exchanges import make_exchange

NAME = "vendor/another-model-2026"
META = ResponseMeta("id", "episode", "what the caller sent", 1, True, Body())
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
CHAT = {
    "model": NAME,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    "usage": USAGE,
}
MESSAGE = {"type": "message", "role": "assistant", "model": NAME, "content": [{"type": "text", "text": "Hi"}]}
RESPONSE = {
    "object": "response",
    "model": NAME,
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]}],
}
GEMINI = {"modelVersion": NAME, "candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
WHOLE: dict[str, dict[str, Any]] = {
    "openai_chat": CHAT,
    "openai_completions": {"model": NAME, "choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]},
    "openai_embeddings": {"model": NAME, "data": [{"index": 0, "embedding": [0.5]}]},
    "openai_responses": RESPONSE,
    "anthropic_messages": {**MESSAGE, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}},
    "vllm_generate": {"model": NAME, "choices": [{"index": 0, "token_ids": [1], "finish_reason": "stop"}]},
    "gemini": GEMINI,
}
FIRST_EVENTS: dict[str, dict[str, Any]] = {
    "openai_chat": {"model": NAME, "choices": [{"index": 0, "delta": {"content": "Hi"}}]},
    "openai_completions": {"model": NAME, "choices": [{"index": 0, "text": "Hi"}]},
    "openai_responses": {"type": "response.created", "response": {"model": NAME, "output": []}},
    "anthropic_messages": {"type": "message_start", "message": {**MESSAGE, "content": []}},
    "gemini": GEMINI,
}
# Of a caller of chat, besides those in which a caller's own dialect is the host's.
TRANSLATED = ("openai_responses", "anthropic_messages", "gemini")


def pairs(names: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, name) for name in names if name in DIALECTS] + [("openai_chat", name) for name in TRANSLATED]


def engine_dialect(name: str) -> Any:
    return ENGINE_DIALECTS.get(name) or DIALECTS[name]


@pytest.mark.parametrize(("caller", "engine"), pairs(WHOLE))
def test_model_is_read_from_whole_responses_and_callers_get_the_name_they_sent(caller: str, engine: str):
    response = translate_response(json.dumps(WHOLE[engine]).encode(), DIALECTS[caller], engine_dialect(engine), META)
    body = json.loads(response.raw)
    assert response.model == NAME and body["modelVersion" if caller == "gemini" else "model"] == META.model


@pytest.mark.parametrize(("caller", "engine"), pairs(FIRST_EVENTS))
def test_model_is_known_with_the_first_event_of_a_stream(caller: str, engine: str):
    editor = make_stream_editor(DIALECTS[caller], engine_dialect(engine), META, streamed=True)
    assert editor.model is None
    event = json.dumps(FIRST_EVENTS[engine])
    editor.feed(f"event: {FIRST_EVENTS[engine].get('type', 'message')}\ndata: {event}\n\n".encode())
    assert editor.model == NAME


def test_model_is_read_where_only_one_side_streams():
    streamer = make_stream_editor(DIALECTS["openai_chat"], ENGINE_DIALECTS["openai_chat"], META, streamed=False)
    streamer.feed(json.dumps(CHAT).encode())
    assembler = make_assembler(DIALECTS["openai_chat"], ENGINE_DIALECTS["openai_chat"], META)
    chunk = {"model": NAME, "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}
    assembler.feed(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
    assert streamer.model == assembler.finish().model == NAME


@pytest.mark.parametrize("value", [b"null", b'""', b"5", b'{"a": 1}', b'"a\\nb"', b'"\\ud800"', b'"%b"' % (b"x" * 201)])
def test_what_cannot_be_the_name_of_a_model_counts_as_none(value: bytes):
    assert read_model_name(msgspec.Raw(value)) is read_model_name(None) is None


def reported(name: str | None, requested: str = "gpt", secret: str = "sk-canary") -> str | None:
    call = SimpleNamespace(credential_client=SimpleNamespace(secret_mask=SecretMask([secret])))
    progress = ResponseProgress(0)
    progress.model = name
    served = Attempt("p", requested, "http://host", 0, 0)
    return Attempted(cast(Planned, None), progress, call=cast(UpstreamCall, call), served=served).reported_model


def test_only_another_name_than_the_requested_one_is_reported_and_no_echoed_secret():
    assert reported("gpt") is reported(None) is None
    assert reported("gpt-2026-01-01") == "gpt-2026-01-01"
    assert reported("sk-canary") == "[masked]"


def test_reported_model_is_priced_if_it_has_a_price_and_as_requested_otherwise():
    prices = (
        Price("p", "cheap", input=1.0, output=1.0),
        Price("p", "dear", input=10.0, output=10.0),
        Price("other", "unpriced", input=99.0, output=99.0),
    )
    snapshot = build_snapshot(1, {}, {"m": ModelConfig((Target("p", "cheap"),))}, prices=prices)
    plan = Plan("m", "m", (Target("p", "cheap"),), ("m",), snapshot)

    def cost(reported_model: str | None) -> int | None:
        return cost_of(plan, "p", "cheap", Usage(1_000_000, 0), 0.0, reported_model).microusd

    assert (cost(None), cost("cheap-2026-01-01"), cost("unpriced"), cost("dear")) == (1_000_000, 1_000_000, 1_000_000, 10_000_000)


def test_reported_model_is_stored_and_exchanges_of_older_versions_are_read():
    column = INFERENCE_COLUMNS.index("reported_model")
    assert inference_row(make_exchange(reported_model=NAME))[column] == NAME
    now = make_exchange()
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_exchange(now))[: Exchange.__struct_fields__.index("reported_model")])
    assert decode_exchange(older) == now and inference_row(decode_exchange(older))[column] is None
