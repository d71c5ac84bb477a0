"""Gemini responses: nothing is invented or lost, and a stream reads like the whole response, however it is split."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from providers.canonical.chat import ChatResponse, Choice, Opaque, OpaqueState, Part, Reasoning, Text, ToolCall, Usage
from providers.canonical.errors import (
    InvalidUpstreamResponse,
    Overloaded,
    StreamTruncated,
    UnparsableModelOutput,
    UpstreamFailed,
    UpstreamRejected,
)
from providers.canonical.events import Event, assemble_response
from providers.dialects.gemini import Gemini
from tests.support.strategies.chat_strategies import bounded, byte_splits, texts

GEMINI = Gemini()
SIGNATURE = OpaqueState("gemini", "SIG")


def frame(*parts: dict[str, Any], finish: str | None = None, usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}
    return body if usage is None else {**body, "usageMetadata": usage}


def read_whole(body: Any) -> ChatResponse:
    return GEMINI.read_response(json.dumps(body).encode())


def sse_bytes(frames: Sequence[Any], newline: bytes = b"\r\n") -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + newline * 2 for each in frames)


def read_streamed(*frames: Any) -> ChatResponse:
    return assemble_response(read_events([sse_bytes(frames)]))


def read_events(blocks: Sequence[bytes]) -> Iterator[Event]:
    reader = GEMINI.stream_reader()
    for block in blocks:
        yield from reader.feed(block)
        assert not reader.done
    yield from reader.finish()
    assert reader.done


def streamed_parts(*frames: Any) -> tuple[Part, ...]:
    return read_streamed(*frames).choices[0].parts


text_parts = st.fixed_dictionaries({"text": texts}, optional={"thought": st.booleans(), "thoughtSignature": st.sampled_from(["a", "b"])})
call_parts = st.fixed_dictionaries(
    {
        "functionCall": st.fixed_dictionaries(
            {"name": st.sampled_from(["f", "g"]), "args": st.dictionaries(texts, texts, max_size=2)},
            optional={"id": st.sampled_from(["x", "y"])},
        )
    },
    optional={"thoughtSignature": st.just("c")},
)
code_parts = st.just({"executableCode": {"language": "PYTHON", "code": "1"}})
part_lists = st.lists(text_parts | call_parts | code_parts, min_size=1, max_size=6)


@bounded
@given(st.data(), part_lists)
def test_stream_reads_the_same_however_its_bytes_are_split(data: st.DataObject, parts: list[dict[str, Any]]):
    """Gemini streams one part per frame. A generated call id is the same each time, and unique."""
    frames = [*(frame(part) for part in parts), frame(finish="STOP", usage={"promptTokenCount": 3})]
    raw = sse_bytes(frames, data.draw(st.sampled_from([b"\r\n", b"\n"])))
    response = assemble_response(read_events(data.draw(byte_splits(raw))))
    assert response == assemble_response(read_events([raw]))
    ids = [part.id for part in response.choices[0].parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == len(ids)


@bounded
@given(part_lists)
def test_whole_response_reads_the_same_as_one_stream_frame(parts: list[dict[str, Any]]):
    body = frame(*parts, finish="STOP", usage={"promptTokenCount": 3})
    assert read_whole(body) == read_streamed(body)


def test_text_signatures_become_reasoning_before_their_text_or_after_the_last():
    assert streamed_parts(frame({"text": "4", "thoughtSignature": "SIG"}, finish="STOP")) == (Reasoning("", SIGNATURE), Text("4"))
    late = streamed_parts(frame({"text": "O"}), frame({"text": "la"}), frame({"text": "", "thoughtSignature": "SIG"}, finish="STOP"))
    assert late == (Text("Ola"), Reasoning("", SIGNATURE))
    between = streamed_parts(frame({"text": "a"}), frame({"text": "", "thoughtSignature": "SIG"}), frame({"text": "b"}, finish="STOP"))
    assert between == (Text("a"), Reasoning("", SIGNATURE), Text("b"))
    signed = streamed_parts(frame({"text": "a", "thoughtSignature": "SIG"}), frame({"text": "b"}, finish="STOP"))
    assert signed == (Reasoning("", SIGNATURE), Text("a"), Text("b"))
    alone = streamed_parts(frame({"thoughtSignature": "SIG"}, finish="STOP"))
    assert alone == (Reasoning("", SIGNATURE),)


def test_thoughts_become_reasoning_with_their_own_signature():
    parts = streamed_parts(
        frame({"text": "Hm", "thought": True}),
        frame({"text": ".", "thought": True, "thoughtSignature": "SIG"}),
        frame({"text": "Else", "thought": True}),
        frame({"text": "Yes."}, finish="STOP"),
    )
    assert parts == (Reasoning("Hm.", SIGNATURE), Reasoning("Else"), Text("Yes."))


def test_call_arguments_keep_their_bytes_and_missing_ids_are_generated():
    raw = json.dumps(frame({"functionCall": {"name": "f", "args": "HERE", "id": "own"}}, {"functionCall": {"name": "g"}}, finish="STOP"))
    response = GEMINI.read_response(raw.replace('"HERE"', '{"b": 1.50, "a": "\\u00e9"}').encode())
    (first, second) = response.choices[0].parts
    assert first == ToolCall("own", "f", '{"b": 1.50, "a": "\\u00e9"}') and response.choices[0].finish_reason == "tool_calls"
    assert isinstance(second, ToolCall) and second.arguments == "{}" and second.id.startswith("call_") and len(second.id) == 29
    other = read_whole({**json.loads(raw), "responseId": "r2"}).choices[0].parts[1]
    assert isinstance(other, ToolCall) and other.id != second.id


def argument_frame(path: str, **value: Any) -> dict[str, Any]:
    return frame({"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}})


def test_call_streamed_in_pieces_becomes_one_tool_call():
    parts = streamed_parts(
        frame({"functionCall": {"name": "cook", "willContinue": True}, "thoughtSignature": "SIG"}),
        argument_frame("$.recipe.name", stringValue="Lasa", willContinue=True),
        argument_frame("$.recipe.name", stringValue="gne"),
        argument_frame("$.recipe.steps[0]['a b'].grams", numberValue=200),
        argument_frame("$.recipe.steps[1]", boolValue=False),
        argument_frame('$["half"]', numberValue=0.5),
        argument_frame("$.none", nullValue="NULL_VALUE"),
        frame({"functionCall": {}}),
        frame({"text": ""}, finish="STOP"),
    )
    (call,) = parts
    assert isinstance(call, ToolCall) and (call.name, call.opaque_state) == ("cook", SIGNATURE)
    recipe = {"name": "Lasagne", "steps": [{"a b": {"grams": 200}}, False]}
    assert json.loads(call.arguments) == {"recipe": recipe, "half": 0.5, "none": None}


@pytest.mark.parametrize("path", ["$", "", "$.a[999999999]", "$.a..b", "$['open", "$.b.c"])
def test_partial_argument_with_an_invalid_path_is_an_invalid_upstream_response(path: str):
    first_frames = [
        frame({"functionCall": {"name": "f", "willContinue": True}}),
        argument_frame("$.b", stringValue="text", willContinue=True),
    ]
    with pytest.raises(InvalidUpstreamResponse):
        read_streamed(*first_frames, argument_frame(path, stringValue="x"))


def test_partial_argument_without_a_started_call_is_an_invalid_upstream_response():
    with pytest.raises(InvalidUpstreamResponse):
        read_streamed(argument_frame("$.a", stringValue="x"))


def test_gemini_only_parts_are_kept_as_opaque_parts():
    code, result = (
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    )
    response = read_whole(
        frame(code, result, {"text": "It is 1."}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, finish="STOP")
    )
    kinds = [json.loads(bytes(part.raw))["type"] if isinstance(part, Opaque) else part for part in response.choices[0].parts]
    assert kinds == ["executableCode", "codeExecutionResult", Text("It is 1."), "inlineData"]


@pytest.mark.parametrize(
    ("reason", "finish", "upstream_reason"),
    [
        ("MAX_TOKENS", "length", None),
        ("SAFETY", "content_filter", "SAFETY"),
        ("RECITATION", "content_filter", "RECITATION"),
        ("PROHIBITED_CONTENT", "content_filter", "PROHIBITED_CONTENT"),
    ],
)
def test_finish_reasons_become_openais_with_the_filter_reason_kept(reason: str, finish: str, upstream_reason: str | None):
    assert read_whole({"candidates": [{"finishReason": reason}]}).choices == (Choice((), finish, upstream_finish_reason=upstream_reason),)
    assert read_streamed(frame({"text": "x"}), {"candidates": [{"finishReason": reason}]}).choices == (
        Choice((Text("x"),), finish, upstream_finish_reason=upstream_reason),
    )


@pytest.mark.parametrize("content", [{}, {"content": {"role": "model"}}, {"content": {"role": "model", "parts": []}}], ids=str)
def test_stop_without_a_part_is_tried_elsewhere(content: dict[str, Any]):
    body = {"candidates": [{**content, "finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}}
    for read in (read_whole, read_streamed):
        with pytest.raises(UnparsableModelOutput) as caught:
            read(body)
        assert caught.value.retry_elsewhere
    empty = frame({"text": ""}, finish="STOP", usage={"promptTokenCount": 7})
    assert read_whole(empty).choices == read_streamed(empty).choices == (Choice((), "stop"),)


def test_blocked_prompt_reads_as_an_empty_content_filter_response():
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}}
    for response in (read_whole(blocked), read_streamed(blocked)):
        assert response.choices == (Choice((), "content_filter", upstream_finish_reason="PROHIBITED_CONTENT"),) and response.usage == Usage(
            7, 0
        )


@pytest.mark.parametrize("reason", ["LANGUAGE", "OTHER", "WHAT_MAY_COME"])
def test_unknown_finish_reason_ends_an_answer_and_fails_without_one(reason: str):
    for response in (read_whole(frame({"text": "Yes."}, finish=reason)), read_streamed(frame({"text": "Yes."}, finish=reason))):
        assert response.choices == (Choice((Text("Yes."),), "stop", upstream_finish_reason=reason),)
    with pytest.raises(UnparsableModelOutput, match=reason) as failed:
        read_whole(frame(finish=reason))
    assert failed.value.upstream_code == reason


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_failure_finish_reason_is_an_error_after_the_parts_before_it(reason: str):
    with pytest.raises(UnparsableModelOutput, match=reason) as failed:
        read_whole(frame(finish=reason, finishMessage="Bad call: f("))
    assert failed.value.upstream_code == reason and not failed.value.counts_as_failure and "Bad call" in failed.value.message
    reader = GEMINI.stream_reader()
    received: list[Event] = []
    with pytest.raises(UnparsableModelOutput):
        for event in reader.feed(sse_bytes([frame({"text": "Let me"}), frame(finish=reason)])):
            received.append(event)
    assert assemble_response(received).choices[0].parts == (Text("Let me"),)


def test_usage_is_kept_when_the_finish_reason_is_a_failure():
    reader = GEMINI.stream_reader()
    received: list[Event] = []
    with pytest.raises(UnparsableModelOutput):
        for event in reader.feed(
            sse_bytes([frame(finish="MALFORMED_FUNCTION_CALL", usage={"promptTokenCount": 9, "candidatesTokenCount": 4})])
        ):
            received.append(event)
    assert assemble_response(received).usage == Usage(9, 4)


def test_stream_may_end_with_openais_done_marker():
    reader = GEMINI.stream_reader()
    raw = sse_bytes([frame({"text": "x"}, finish="STOP")]) + b"data: [DONE]\r\n\r\n"
    assert assemble_response([*reader.feed(raw), *reader.finish()]).choices[0].parts == (Text("x"),) and reader.done


@pytest.mark.parametrize(
    ("usage_metadata", "usage"),
    [
        ({"promptTokenCount": 15, "thoughtsTokenCount": 2, "totalTokenCount": 17}, Usage(15, 2, reasoning=2)),
        (
            {"promptTokenCount": 10, "candidatesTokenCount": 3, "cachedContentTokenCount": 6, "thoughtsTokenCount": 4},
            Usage(10, 7, cached=6, reasoning=4),
        ),
        ({"promptTokenCount": 95, "toolUsePromptTokenCount": 439, "candidatesTokenCount": 66}, Usage(534, 66)),
        (
            {
                "promptTokenCount": 113,
                "candidatesTokenCount": 10,
                "promptTokensDetails": [
                    {"modality": "AUDIO", "tokenCount": 100},
                    {"modality": "IMAGE", "tokenCount": 8},
                    {"modality": "TEXT"},
                ],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 9}],
            },
            Usage(113, 10, audio_input=100, image_input=8, audio_output=9),
        ),
        ({"promptTokenCount": 1, "trafficType": "ON_DEMAND_FLEX"}, Usage(1, 0, tier="flex")),
        ({"promptTokenCount": 1, "serviceTier": "priority"}, Usage(1, 0, tier="priority")),
        ({"promptTokenCount": 1, "serviceTier": "standard"}, Usage(1, 0)),
        ({"trafficType": "ON_DEMAND"}, None),
        ({"promptTokenCount": -1, "candidatesTokenCount": 10**15}, None),
    ],
)
def test_usage_counts_every_token_once(usage_metadata: dict[str, Any], usage: Usage | None):
    last = frame({"text": "x"}, finish="STOP", usage=usage_metadata)
    assert read_whole(last).usage == read_streamed(last).usage == usage


def test_usage_after_the_finish_reason_is_counted():
    response = read_streamed(frame({"text": "x"}, finish="STOP"), {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}})
    assert response.usage == Usage(3, 1)


def test_candidates_are_kept_apart_by_index():
    frames = [{"candidates": [{"index": index, "content": {"parts": [{"text": text}]}}]} for index, text in ((1, "b"), (0, "a"), (1, "B"))]
    ends = {"candidates": [{"index": index, "finishReason": "STOP"} for index in (0, 1)]}
    assert [choice.parts for choice in read_streamed(*frames, ends).choices] == [(Text("a"),), (Text("bB"),)]
    with pytest.raises(StreamTruncated):
        read_streamed(*frames, {"candidates": [{"index": 0, "finishReason": "STOP"}]})
    with pytest.raises(InvalidUpstreamResponse):
        read_streamed({"candidates": [{"index": 10**6}]})


CHUNKS: list[dict[str, Any]] = [
    {"web": {"uri": "https://a.test/1", "title": "One"}},
    {"retrievedContext": {"text": "As it stands there."}},
]


def grounding_metadata(*supports: tuple[dict[str, Any], list[int]]) -> dict[str, Any]:
    grounding_supports = [{"segment": segment, "groundingChunkIndices": chunks} for segment, chunks in supports]
    return {"groundingMetadata": {"groundingChunks": CHUNKS, "groundingSupports": grounding_supports}}


def citations_of(response: ChatResponse) -> list[Any]:
    texts = [part for part in response.choices[0].parts if isinstance(part, Text)]
    return [(each.url, each.title, each.quote, text.text[each.start : each.end]) for text in texts for each in text.citations]


def test_citation_offsets_are_converted_from_bytes_to_characters():
    text = "Grüße 😀 aus Köln. Mehr."
    start, end = len("Grüße 😀 ".encode()), len("Grüße 😀 aus Köln.".encode())
    sources = grounding_metadata(({"startIndex": start, "endIndex": end, "text": "aus Köln."}, [0, 1, 9]))
    wanted = [("https://a.test/1", "One", None, "aus Köln."), (None, None, "As it stands there.", "aus Köln.")]
    assert citations_of(read_whole(frame({"text": text}, finish="STOP", **sources))) == wanted
    halves = [
        frame({"text": text[:9]}),
        frame({"text": text[9:]}),
        frame({"text": "", "thoughtSignature": "SIG"}, finish="STOP", **sources),
    ]
    assert citations_of(read_streamed(*halves)) == wanted
    without = grounding_metadata(({"startIndex": start, "endIndex": end}, [0]))
    assert citations_of(read_whole(frame({"text": text}, finish="STOP", **without))) == wanted[:1]


def test_citation_is_located_by_its_quoted_text_and_reported_once():
    sources = grounding_metadata(({"endIndex": 5, "text": "found"}, [0]))
    frames = [frame({"text": "It was ", "thoughtSignature": "S"}, **sources), frame({"text": "found."}, finish="STOP", **sources)]
    response = read_streamed(*frames)
    assert citations_of(response) == [("https://a.test/1", "One", None, "found")]
    nowhere = read_whole(frame({"text": "Other."}, finish="STOP", **sources)).choices[0].parts[0]
    assert isinstance(nowhere, Text) and [(each.start, each.end) for each in nowhere.citations] == [(None, None)]


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_recitation_metadata_becomes_a_citation(key: str):
    response = read_whole(
        frame({"text": "Où est-il?"}, finish="STOP", citationMetadata={key: [{"startIndex": 4, "endIndex": 7, "uri": "https://b.test"}]})
    )
    assert citations_of(response) == [("https://b.test", None, None, "est")]


@pytest.mark.parametrize("broken", [{"groundingMetadata": {"groundingSupports": 5}}, {"citationMetadata": []}])
def test_unreadable_citation_metadata_does_not_fail_the_response(broken: dict[str, Any]):
    assert read_whole(frame({"text": "x"}, finish="STOP", **broken)).choices[0].parts == (Text("x"),)


def test_logprobs_have_every_field_of_openais_format():
    result = {
        "chosenCandidates": [{"token": "Hi", "logProbability": -0.5, "tokenId": 3}, {"token": "!"}],
        "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.5}, {"token": "Ho", "logProbability": -1.5}]}],
    }
    logprobs = read_whole(frame({"text": "Hi!"}, finish="STOP", logprobsResult=result)).choices[0].logprobs
    assert logprobs is not None
    first, second = (json.loads(bytes(each)) for each in logprobs)
    assert first == {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "Hi", "logprob": -0.5, "bytes": None}, {"token": "Ho", "logprob": -1.5, "bytes": None}],
    }
    assert second == {"token": "!", "logprob": 0.0, "bytes": None, "top_logprobs": []}


@pytest.mark.parametrize("frames", [[], [frame({"text": "x"})], [{"usageMetadata": {"promptTokenCount": 1}}]])
def test_stream_without_a_finish_reason_is_truncated(frames: list[Any]):
    with pytest.raises(StreamTruncated):
        read_streamed(*frames)


@pytest.mark.parametrize(
    "raw", [b"[]", b'[{"candidates":[]}]', b"{}", b"not JSON", b'{"candidates":5}', b'{"candidates":[{"content":{"parts":[5]}}]}']
)
def test_body_that_is_not_a_response_is_an_invalid_upstream_response(raw: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        GEMINI.read_response(raw)


def test_json_array_instead_of_events_is_invalid_unless_it_holds_an_error():
    raw = json.dumps([frame({"text": "x"}, finish="STOP")]).encode()
    error = json.dumps([{"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}], indent=1).encode()
    for blocks in ([raw], [raw[:5], raw[5:]]):
        with pytest.raises(InvalidUpstreamResponse):
            list(read_events(blocks))
    for blocks in ([error], [b"  ", error[:1], error[1:30], error[30:]]):
        with pytest.raises(Overloaded, match="Overloaded"):
            list(read_events(blocks))
    with pytest.raises(Overloaded):
        GEMINI.read_response(error)


@pytest.mark.parametrize(("code", "kind"), [(400, UpstreamRejected), (429, Overloaded), (500, UpstreamFailed)])
def test_error_in_a_stream_is_raised_after_the_parts_before_it(code: int, kind: type[Exception]):
    received: list[Event] = []
    with pytest.raises(kind):
        for event in GEMINI.stream_reader().feed(
            sse_bytes([frame({"text": "Hi"}), {"error": {"code": code, "message": "It is so.", "status": "X"}}])
        ):
            received.append(event)
    assert assemble_response(received).choices[0].parts == (Text("Hi"),)


def test_lone_surrogate_is_read_as_the_replacement_character():
    raw = json.dumps(frame({"text": "a\ud83d"}, finish="STOP")).encode()
    assert GEMINI.read_response(raw).choices[0].parts == (Text("a\ufffd"),)


def test_create_time_of_vertex_becomes_the_created_timestamp():
    body = {**frame({"text": "x"}, finish="STOP"), "createTime": "2026-08-19T14:36:02.480872Z"}
    assert read_whole(body).created == 1787150162
    assert replace(read_whole({**body, "createTime": "soon"}), created=1) == replace(read_whole(body), created=1)
