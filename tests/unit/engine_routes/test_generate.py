"""/generate: LMDeploy's and SGLang's own shapes, streamed and whole, with what they may write at most and what they used."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.routing import Target
from app.gateway.request_translation.recipient import Recipient
from app.gateway.request_translation.translate_route import translate_route
from app.gateway.response_translation.dialect_pair import TargetDialect
from app.gateway.response_translation.translate import make_stream_editor, translate_response
from providers.canonical.chat import Usage
from providers.canonical.errors import (
    InvalidRequest,
    InvalidUpstreamResponse,
    OperationNotSupported,
    StreamTruncated,
    Unsupported,
    UpstreamFailed,
)
from providers.catalogue import ADAPTERS, ROUTES
from providers.dialect import StreamEditor
from tests.support.request_translation import MEDIA, drop_nothing, make_source
from tests.support.strategies.chat_strategies import META, byte_splits

GENERATE = ROUTES["generate"]
PROMPT: dict[str, Any] = {"prompt": "Hi you", "max_tokens": 9, "temperature": 0.5, "session_id": 7}
TEXT: dict[str, Any] = {"text": "Hi you", "sampling_params": {"max_new_tokens": 9, "temperature": 0.5}, "return_logprob": True}


def sent_to(adapter: str, **body: Any) -> tuple[dict[str, Any], TargetDialect, str | None, bool]:
    request = GENERATE.parse_request(json.dumps({"model": "m", **body}).encode())
    source = make_source(request, b"", GENERATE, MEDIA, drop_nothing, inference_id="the-id")
    translated = translate_route(
        source, GENERATE, Recipient(ADAPTERS[adapter]("it", {}, None, "http://engine:8000/v1"), Target("it", "engine-model"))
    )
    return json.loads(translated.raw), translated.dialect, translated.id, translated.stream


def chunk(text: str, completion_tokens: int, reason: str | None = None, **finish: Any) -> dict[str, Any]:
    finish_reason = None if reason is None else {"type": reason, **finish}
    info = {"prompt_tokens": 3, "completion_tokens": completion_tokens, "finish_reason": finish_reason, "output_token_logprobs": None}
    return {"text": text, "output_ids": [1] * completion_tokens, "meta_info": info}


def frames(*chunks: Any, done: bool = True) -> bytes:
    return b"".join(b"data: " + msgspec.json.encode(each) + b"\n\n" for each in chunks) + b"data: [DONE]\n\n" * done


def editor_for(adapter: str = "lmdeploy") -> StreamEditor:
    _, binding, _, _ = sent_to(adapter, **(PROMPT if adapter == "lmdeploy" else TEXT), stream=True)
    return make_stream_editor(GENERATE, binding, META, streamed=True)


@pytest.mark.parametrize("stream", [False, True])
def test_each_engine_gets_its_own_shape_without_a_model(stream: bool):
    lmdeploy, _, lmdeploy_id, is_stream = sent_to("lmdeploy", **PROMPT, stream=stream, user="u")
    assert (lmdeploy, lmdeploy_id, is_stream) == ({**PROMPT, "stream": stream}, None, stream)
    sglang, _, sglang_id, is_stream = sent_to("sglang", **TEXT, stream=stream, rid="of-another-caller")
    assert (sglang, sglang_id, is_stream) == ({**TEXT, "stream": stream, "rid": "the-id"}, "the-id", stream)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        (PROMPT, (2, 9)),
        ({"prompt": "Hi"}, (1, 128)),
        (TEXT, (2, 9)),
        ({"text": "Hi"}, (1, 128)),
        ({"text": "Hi", "sampling_params": {}}, (1, 128)),
        ({"input_ids": [1, 2, 3], "max_tokens": 4}, (3, 4)),
        ({"input_ids": [1, 2, 3], "sampling_params": {"max_new_tokens": 5}}, (3, 5)),
    ],
)
def test_limits_reserve_what_the_engine_writes_at_most(body: dict[str, Any], tokens: tuple[int, int]):
    request = GENERATE.parse_request(json.dumps({"model": "m", **body}).encode())
    assert (request.input_tokens, request.output_tokens, request.choices) == (*tokens, 1)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"text": "Hi", "sampling_params": {"max_new_tokens": None}}, "sampling_params.max_new_tokens"),
        ({"text": "Hi", "sampling_params": {"n": 2}}, "sampling_params.n"),
        ({"text": ["Hi", "you"]}, "text"),
        ({"prompt": "Hi", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "Hi", "input_ids": [1]}, "input_ids"),
        ({}, "prompt"),
    ],
)
def test_invalid_request_is_refused_by_its_path(body: dict[str, Any], param: str):
    with pytest.raises(InvalidRequest) as refused:
        GENERATE.parse_request(json.dumps({"model": "m", **body}).encode())
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("adapter", "body", "param"),
    [
        ("lmdeploy", {**PROMPT, "sampling_params": {"max_new_tokens": 9_000}}, "sampling_params"),
        ("lmdeploy", {**PROMPT, "max_new_tokens": 9_000}, "max_new_tokens"),
        ("lmdeploy", TEXT, "text"),
        ("sglang", {**TEXT, "max_tokens": 5}, "max_tokens"),
        ("sglang", {"text": "Hi", "sampling_params": {"regex": "(a"}}, "sampling_params"),
        ("sglang", PROMPT, "prompt"),
    ],
)
def test_what_the_engine_would_ignore_is_refused(adapter: str, body: dict[str, Any], param: str):
    with pytest.raises(Unsupported) as refused:
        sent_to(adapter, **body)
    assert refused.value.param == param


def test_fields_that_are_not_open_to_callers_are_refused_and_other_engines_have_no_such_route():
    with pytest.raises(InvalidRequest, match="lora_path"):
        sent_to("sglang", **TEXT, lora_path="other")
    with pytest.raises(OperationNotSupported, match="/v1/completions is for all"):
        sent_to("vllm", **PROMPT)


def test_whole_response_is_returned_as_it_is_with_its_usage():
    _, binding, _, _ = sent_to("lmdeploy", **PROMPT)
    upstream = chunk("Hello.", 2, "length", length=2)
    response = translate_response(msgspec.json.encode(upstream), GENERATE, binding, META)
    assert (json.loads(response.raw), response.usage, response.finish_reason) == (upstream, Usage(3, 2), "length")


@pytest.mark.parametrize(
    ("upstream", "kind"),
    [
        ({}, InvalidUpstreamResponse),
        ({"message": "Internal failure"}, InvalidUpstreamResponse),
        ({"text": "Hi", "meta_info": {}}, InvalidUpstreamResponse),
        ({"meta_info": {"finish_reason": {"type": "stop"}}}, InvalidUpstreamResponse),
        (chunk("", 0, "error"), UpstreamFailed),
        ({"error": {"message": "broke"}}, UpstreamFailed),
    ],
)
def test_response_that_is_no_answer_is_an_error(upstream: Any, kind: type[Exception]):
    _, binding, _, _ = sent_to("sglang", **TEXT)
    with pytest.raises(kind):
        translate_response(msgspec.json.encode(upstream), GENERATE, binding, META)


STREAM = (chunk("Hel", 1), chunk("lo.", 2), chunk("", 2, "stop"))


@given(st.data())
def test_stream_is_sent_on_as_it_is_and_its_end_held_back(data: st.DataObject):
    editor = editor_for(data.draw(st.sampled_from(["lmdeploy", "sglang"])))
    stream = b": ping\n\n" + frames(STREAM[0], {"ping": 1}, *STREAM[1:])
    sent = b"".join(map(editor.feed, data.draw(byte_splits(stream))))
    assert sent == frames(*STREAM[:2], done=False)
    assert sent + editor.finish() == frames(*STREAM)
    assert (editor.usage, editor.finish_reason, editor.done) == (Usage(3, 2), "stop", True)


def test_stream_that_breaks_off_or_fails_is_an_error_and_tells_what_it_used():
    editor = editor_for()
    assert editor.feed(frames(*STREAM[:2], done=False)) == frames(*STREAM[:2], done=False)
    assert (editor.usage, editor.finish_reason, editor.written_tokens) == (Usage(3, 2), None, 2)
    with pytest.raises(StreamTruncated):
        editor.finish()
    failing = editor_for()
    assert failing.feed(frames(STREAM[0], chunk("", 1, "abort"))) == frames(STREAM[0], done=False)
    assert isinstance(failing.failure, UpstreamFailed)


def test_engine_that_does_not_stream_on_demand_is_an_error():
    _, binding, _, _ = sent_to("lmdeploy", **PROMPT, stream=True)
    with pytest.raises(InvalidUpstreamResponse, match="streamed"):
        make_stream_editor(GENERATE, binding, META, streamed=False)


@pytest.mark.parametrize("adapter", ["lmdeploy", "sglang"])
def test_stream_that_is_left_has_written_what_its_engine_counted(adapter: str):
    """SGLang's chunks repeat all text before them, so that their bytes say nothing."""
    editor = editor_for(adapter)
    for count in range(1, 200):
        editor.feed(frames(chunk("word " * (count if adapter == "sglang" else 1), count), done=False))
        assert editor.written_tokens == count


def test_stream_that_goes_on_after_its_last_chunk_is_bounded_and_read_in_linear_time():
    editor = editor_for()
    editor.feed(frames(chunk("a", 1, "stop"), done=False))
    more = frames(*[chunk("b" * 1_000, 1)] * 100, done=False)
    fed_bytes = 0
    while editor.failure is None:
        editor.feed(more)
        fed_bytes += len(more)
        assert fed_bytes < 17 * 1024 * 1024
    assert isinstance(editor.failure, InvalidUpstreamResponse)
