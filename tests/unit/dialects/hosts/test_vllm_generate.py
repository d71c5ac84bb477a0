"""vLLM's route for tokens: everything except the gateway's keys stays the engine's own bytes, and the end of a stream is held back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.canonical.chat import Usage
from providers.canonical.errors import InvalidRequest, InvalidUpstreamResponse, StreamTruncated, UpstreamError, UpstreamFailed
from providers.canonical.raw_json import Body
from providers.dialect import ResponseMeta
from providers.dialects.vllm_generate import VLLMGenerate
from providers.dialects.vllm_generate.edit import TokenStreamEditor
from tests.support.case_tables import failed_cases
from tests.support.strategies.chat_strategies import META, META_WITHOUT_USAGE, bounded, parse_sse_chunks

REQUEST: dict[str, Any] = {"model": "m", "token_ids": [1, 2, 3], "sampling_params": {"max_tokens": 5}}

# Each documented field: valid values of each documented type, and invalid values.
DOCUMENTED: dict[str, tuple[list[Any], list[Any]]] = {
    "model": (["x", None], [1]),
    "token_ids": ([[0], [1] * 4096], [[], [-1], ["a"], [1.5], [[1]], "ab", 5, None, [True]]),
    "sampling_params": ([{}, {"unheard_of": 1}], [None, [], "x"]),
    "request_id": (["theirs"], [1]),
    "stream": ([True, False], ["x", 1]),
    "output_mode": (["tokens", "text"], [1]),
    "features": ([{"mm_hashes": {}}], ["x"]),
    "content_parts": ([[{"type": "image_url"}]], ["x", [1]]),
    "cache_salt": (["salt"], ["", 1, "x" * 1025]),
    "priority": ([0, -5], ["x", 1.5]),
    "return_token_ids": ([True], [1]),
    "kv_transfer_params": ([{"a": 1}], ["x"]),
    "episode_id": (["01990000-0000-7000-8000-00000000000b"], [1, ""]),
    "tensorzero::tags": ([{"a": "b"}], [{"a": 1}]),
}
SAMPLING: dict[str, tuple[list[Any], list[Any]]] = {
    "max_tokens": ([1, None], [0, "5", 1.5]),
    "n": ([1, 4], [0, "x"]),
    "temperature": ([0, 1.5, 3], [-1, "hot"]),
    "top_p": ([0.1, 1], [0, 1.1]),
    "top_k": ([-1, 0, 50], [-2, 1.5]),
    "min_p": ([0, 1], [2]),
    "presence_penalty": ([-2, 2], [3]),
    "repetition_penalty": ([0.5, 2], [0]),
    "seed": ([1], ["x"]),
    "stop": (["a", ["a"]], [1]),
    "stop_token_ids": ([[1]], ["x", ["a"]]),
    "logprobs": ([0, -1], ["x"]),
    "logit_bias": ([{"1": 2}], [{"1": "x"}]),
    "structured_outputs": ([{"regex": "a"}], ["x"]),
}
VALID = [{field: value} for field, (valid, _) in DOCUMENTED.items() for value in valid] + [
    {"sampling_params": {field: value}} for field, (valid, _) in SAMPLING.items() for value in valid
]
INVALID = [(field, {field: value}) for field, (_, invalid) in DOCUMENTED.items() for value in invalid] + [
    (f"sampling_params.{field}", {"sampling_params": {field: value}}) for field, (_, invalid) in SAMPLING.items() for value in invalid
]

ids = st.lists(st.integers(0, 150_000), max_size=4)
usage = {"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 2}}


def chunk(index: int, token_ids: list[int] | None, reason: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "finish_reason": reason, "stop_reason": None, "token_ids": token_ids, "logprobs": None}
    return {"request_id": "generate-tokens-theirs", "usage": None, "output_mode": "tokens", "choices": [choice], **more}


def frames(*chunks: dict[str, Any], done: bool = True) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n" * done


LAST: dict[str, Any] = {"request_id": "generate-tokens-theirs", "output_mode": "tokens", "choices": [], "usage": usage}


def edit_stream(raw: bytes, meta: ResponseMeta = META) -> tuple[list[dict[str, Any]], TokenStreamEditor]:
    editor = VLLMGenerate().stream_editor(meta)
    out = editor.feed(raw)
    return parse_sse_chunks(out + editor.finish()), editor


def test_documented_and_unknown_fields_are_kept_unchanged():
    def check(fields: dict[str, Any]) -> None:
        request = {**REQUEST, **fields, "unheard_of": {"x": [1.50]}}
        inbound = VLLMGenerate().parse_request(json.dumps(request).encode())
        assert json.loads(inbound.body.write()) == request

    assert failed_cases(check, [(fields,) for fields in VALID]) == []


def test_field_of_a_wrong_type_is_refused_by_its_path():
    def check(path: str, fields: dict[str, Any]) -> None:
        with pytest.raises(InvalidRequest) as refused:
            VLLMGenerate().parse_request(json.dumps({**REQUEST, **fields}).encode())
        assert refused.value.param is not None
        assert refused.value.param.startswith(path)

    assert failed_cases(check, INVALID) == []


def test_request_may_leave_out_its_model():
    inbound = VLLMGenerate().parse_request(json.dumps({**REQUEST, "model": None}).encode())
    assert inbound.names_no_model and not VLLMGenerate().parse_request(json.dumps(REQUEST).encode()).names_no_model


@pytest.mark.parametrize("without", ["token_ids", "sampling_params"])
def test_missing_required_field_is_named(without: str):
    with pytest.raises(InvalidRequest) as refused:
        VLLMGenerate().parse_request(json.dumps({key: value for key, value in REQUEST.items() if key != without}).encode())
    assert refused.value.param == without


def test_token_counts_are_exact_and_output_covers_all_choices():
    inbound = VLLMGenerate().parse_request(json.dumps({**REQUEST, "sampling_params": {"max_tokens": 5, "n": 3}}).encode())
    assert (inbound.input_tokens, inbound.output_tokens, inbound.choices, inbound.stream, inbound.wants_usage) == (3, 15, 3, False, False)
    unbounded = VLLMGenerate().parse_request(json.dumps({**REQUEST, "sampling_params": {}, "content_parts": [{}]}).encode())
    assert unbounded.output_tokens is None
    assert unbounded.input_tokens > 1000


def test_stream_usage_is_requested_whatever_the_caller_requested():
    request = {**REQUEST, "stream": True, "stream_options": {"continuous_usage_stats": True}}
    dialect = VLLMGenerate()
    for stream, include_usage, expected in (
        (True, True, {"stream": True, "stream_options": {"continuous_usage_stats": True, "include_usage": True}}),
        (True, False, {"stream": True}),
        (False, True, {}),
    ):
        body = Body(dialect.parse_request(json.dumps(request).encode()).body)
        dialect.prepare_upstream_body(body, stream, include_usage=include_usage)
        assert json.loads(body.write()) == {**REQUEST, **expected}
    with pytest.raises(InvalidRequest) as refused:
        dialect.parse_request(json.dumps({**request, "stream": False}).encode())
    assert refused.value.param == "stream_options"


@bounded
@given(st.lists(st.tuples(ids, st.sampled_from(["stop", "length"])), min_size=1, max_size=3), st.booleans())
def test_whole_response_is_unchanged_except_for_id_and_model(outputs: Any, has_usage: bool):
    choices = [{"index": index, "token_ids": each, "finish_reason": reason, "x": 1.5} for index, (each, reason) in enumerate(outputs)]
    whole = {"request_id": "theirs", "model": "engine", "choices": choices[::-1], "usage": usage if has_usage else None, "odd": {"a": [1]}}
    edited = VLLMGenerate().edit_response(json.dumps(whole).encode(), META)
    assert json.loads(edited.raw) == {**whole, "request_id": META.id, "model": META.model}
    assert edited.usage == (Usage(3, 9, 2) if has_usage else Usage(None, sum(len(each) for each, _ in outputs)))
    assert edited.finish_reason == outputs[0][1]


def test_model_is_not_added_to_a_response_without_one():
    edited = VLLMGenerate().edit_response(json.dumps({"request_id": "theirs", "choices": [{"index": 0, "token_ids": [1]}]}).encode(), META)
    assert json.loads(edited.raw) == {"request_id": META.id, "choices": [{"index": 0, "token_ids": [1]}]}


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": None}, {"choices": [5]}, {"choices": "x"}], ids=repr)
def test_response_without_choices_is_invalid(body: Any):
    with pytest.raises(InvalidUpstreamResponse):
        VLLMGenerate().edit_response(json.dumps(body).encode(), META)


def test_error_inside_a_200_response_is_raised():
    error = {"error": {"message": "out of memory", "code": 500}}
    with pytest.raises(UpstreamFailed):
        VLLMGenerate().edit_response(json.dumps(error).encode(), META)
    editor = VLLMGenerate().stream_editor(META)
    out = editor.feed(frames(chunk(0, [1]), error))
    assert json.loads(out.removeprefix(b"data: "))["choices"][0]["token_ids"] == [1]
    assert isinstance(editor.failure, UpstreamFailed)
    with pytest.raises(UpstreamFailed):
        editor.finish()


@bounded
@given(st.lists(ids.filter(bool), min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 40), st.booleans())
def test_stream_is_unchanged_except_for_its_id_for_every_split(steps: list[list[int]], choices: int, size: int, wants_usage: bool):
    chunks = [chunk(index, step) for step in steps for index in range(choices)] + [chunk(index, [], "stop") for index in range(choices)]
    raw = frames(*chunks, LAST)
    editor = VLLMGenerate().stream_editor(META if wants_usage else META_WITHOUT_USAGE)
    out = b"".join(editor.feed(raw[at : at + size]) for at in range(0, len(raw), size)) + editor.finish()
    expected = [*chunks, LAST] if wants_usage else chunks
    assert parse_sse_chunks(out) == [{**each, "request_id": META.id} for each in expected]
    assert (editor.usage, editor.finish_reason, editor.done) == (Usage(3, 9, 2), "stop", True)
    assert editor.written_tokens == choices * sum(map(len, steps))


def test_final_chunks_are_held_back_until_the_stream_ends():
    editor = VLLMGenerate().stream_editor(META)
    assert editor.feed(frames(chunk(0, [1]), done=False))
    assert editor.feed(frames(chunk(0, [2], "length"), done=False)) == b""
    assert editor.feed(frames(chunk(1, [3]), done=False)).count(b"data: ") == 2
    assert editor.feed(frames(chunk(1, [4], "stop"), LAST)) == b""
    assert editor.finish_reason == "length"
    assert editor.finish().count(b"data: ") == 3


def test_interim_usage_is_passed_only_on_request_and_never_counted():
    chunks = [chunk(0, [1], usage={"prompt_tokens": 3, "completion_tokens": 1}), chunk(1, [2], "stop"), chunk(0, [3], "stop")]
    with_usage, editor = edit_stream(frames(*chunks))
    assert [each["usage"] is not None for each in with_usage] == [True, False, False]
    assert (editor.usage, editor.written_tokens) == (None, 3)
    without_usage, editor = edit_stream(frames(*chunks, LAST), META_WITHOUT_USAGE)
    assert [each["usage"] for each in without_usage] == [None, None, None]
    assert editor.usage == Usage(3, 9, 2)


@pytest.mark.parametrize("tail", [b"", b"\n", b"data: [DONE]"], ids=repr)
def test_done_is_sent_although_the_engine_omits_it(tail: bytes):
    raw = frames(chunk(0, [1]), chunk(0, [2], "stop"), done=False)
    assert len(edit_stream(raw + tail)[0]) == 2
    assert len(edit_stream(raw.removesuffix(b"\n\n"))[0]) == 2
    assert len(edit_stream(raw + b'data: {"cho')[0]) == 2


def test_stream_without_a_finish_reason_is_truncated():
    editor = VLLMGenerate().stream_editor(META)
    assert editor.feed(frames(chunk(0, [1])))
    assert editor.done
    with pytest.raises(StreamTruncated):
        editor.finish()


@pytest.mark.parametrize("data", [b'{"choices": 5}', b"nonsense", b'{"choices": [{"index": "x"}]}'])
def test_invalid_chunk_fails_the_stream_after_the_chunks_before_it(data: bytes):
    editor = VLLMGenerate().stream_editor(META)
    assert editor.feed(frames(chunk(0, [1], "stop"), done=False) + b"data: " + data + b"\n\n").count(b"data: ") == 1
    assert isinstance(editor.failure, InvalidUpstreamResponse)
    with pytest.raises(InvalidUpstreamResponse):
        editor.finish()


def test_errors_are_written_in_the_openai_envelope():
    body = json.loads(VLLMGenerate().write_error(InvalidRequest("No.", param="token_ids")))
    assert body == {"error": {"message": "No.", "type": "invalid_request_error", "code": 400, "param": "token_ids"}}
    assert VLLMGenerate().write_error_frame(InvalidRequest("No.")).startswith(b'data: {"error"')


odd = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["", "stop", "\\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["index", "finish_reason", "token_ids", "completion_tokens", "message"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@bounded
@given(st.lists(st.dictionaries(st.sampled_from(["choices", "usage", "error", "model", "object"]), odd), max_size=3))
def test_any_engine_output_is_a_response_or_an_upstream_error(bodies: list[Any]):
    raws = [json.dumps(each).encode().replace(b"\\\\ud800", b"\\ud800") for each in bodies]
    for raw in raws:
        try:
            assert json.loads(VLLMGenerate().edit_response(raw, META).raw)["request_id"] == META.id
        except UpstreamError:
            continue
    editor = VLLMGenerate().stream_editor(META)
    out = editor.feed(b"".join(b"data: " + raw + b"\n\n" for raw in raws))
    try:
        assert {each["request_id"] for each in parse_sse_chunks(out + editor.finish())} == {META.id}
    except UpstreamError:
        assert editor.finish_reason is None or editor.failure is not None
