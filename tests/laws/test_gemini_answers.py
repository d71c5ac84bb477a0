"""Laws of Gemini's answers: nothing is invented, nothing is lost, a stream means what the whole does, however it is cut."""

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
from tests.laws.chats import bounded, cuts, texts

GEMINI = Gemini()
SEAL = OpaqueState("gemini", "SIG")


def frame(*parts: dict[str, Any], finish: str | None = None, usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    told: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "r1"}
    return told if usage is None else {**told, "usageMetadata": usage}


def whole(told: Any) -> ChatResponse:
    return GEMINI.read_response(json.dumps(told).encode())


def wire(frames: Sequence[Any], newline: bytes = b"\r\n") -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + newline * 2 for each in frames)


def streamed(*frames: Any) -> ChatResponse:
    return assemble_response(events([wire(frames)]))


def events(blocks: Sequence[bytes]) -> Iterator[Event]:
    reader = GEMINI.stream_reader()
    for block in blocks:
        yield from reader.feed(block)
        assert not reader.done
    yield from reader.finish()
    assert reader.done


def parts_of(*frames: Any) -> tuple[Part, ...]:
    return streamed(*frames).choices[0].parts


spoken = st.fixed_dictionaries({"text": texts}, optional={"thought": st.booleans(), "thoughtSignature": st.sampled_from(["a", "b"])})
called = st.fixed_dictionaries(
    {
        "functionCall": st.fixed_dictionaries(
            {"name": st.sampled_from(["f", "g"]), "args": st.dictionaries(texts, texts, max_size=2)},
            optional={"id": st.sampled_from(["x", "y"])},
        )
    },
    optional={"thoughtSignature": st.just("c")},
)
ran = st.just({"executableCode": {"language": "PYTHON", "code": "1"}})
said = st.lists(spoken | called | ran, max_size=6)


@bounded
@given(st.data(), said)
def test_a_stream_means_the_same_however_it_is_cut(data: st.DataObject, parts: list[dict[str, Any]]):
    """One part a frame, as Gemini streams them; a call's id that it did not tell is the same each time, and nobody else's."""
    frames = [*(frame(part) for part in parts), frame(finish="STOP", usage={"promptTokenCount": 3})]
    raw = wire(frames, data.draw(st.sampled_from([b"\r\n", b"\n"])))
    told = assemble_response(events(data.draw(cuts(raw))))
    assert told == assemble_response(events([raw]))
    ids = [part.id for part in told.choices[0].parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == len(ids)


@bounded
@given(said)
def test_a_whole_answer_means_what_the_same_parts_mean_in_one_frame(parts: list[dict[str, Any]]):
    told = frame(*parts, finish="STOP", usage={"promptTokenCount": 3})
    assert whole(told) == streamed(told)


def test_signatures_stand_before_the_text_that_they_came_with_or_behind_the_last():
    assert parts_of(frame({"text": "4", "thoughtSignature": "SIG"}, finish="STOP")) == (Reasoning("", SEAL), Text("4"))
    late = parts_of(frame({"text": "O"}), frame({"text": "la"}), frame({"text": "", "thoughtSignature": "SIG"}, finish="STOP"))
    assert late == (Text("Ola"), Reasoning("", SEAL))
    between = parts_of(frame({"text": "a"}), frame({"text": "", "thoughtSignature": "SIG"}), frame({"text": "b"}, finish="STOP"))
    assert between == (Text("a"), Reasoning("", SEAL), Text("b"))
    signed = parts_of(frame({"text": "a", "thoughtSignature": "SIG"}), frame({"text": "b"}, finish="STOP"))
    assert signed == (Reasoning("", SEAL), Text("a"), Text("b"))
    alone = parts_of(frame({"thoughtSignature": "SIG"}, finish="STOP"))
    assert alone == (Reasoning("", SEAL),)


def test_thoughts_are_reasoning_with_their_own_seal():
    told = parts_of(
        frame({"text": "Hm", "thought": True}),
        frame({"text": ".", "thought": True, "thoughtSignature": "SIG"}),
        frame({"text": "Else", "thought": True}),
        frame({"text": "Yes."}, finish="STOP"),
    )
    assert told == (Reasoning("Hm.", SEAL), Reasoning("Else"), Text("Yes."))


def test_calls_keep_their_arguments_as_written_and_get_ids_where_they_have_none():
    raw = json.dumps(frame({"functionCall": {"name": "f", "args": "HERE", "id": "own"}}, {"functionCall": {"name": "g"}}, finish="STOP"))
    answer = GEMINI.read_response(raw.replace('"HERE"', '{"b": 1.50, "a": "\\u00e9"}').encode())
    (first, second) = answer.choices[0].parts
    assert first == ToolCall("own", "f", '{"b": 1.50, "a": "\\u00e9"}') and answer.choices[0].finish_reason == "tool_calls"
    assert isinstance(second, ToolCall) and second.arguments == "{}" and second.id.startswith("call_") and len(second.id) == 29
    other = whole({**json.loads(raw), "responseId": "r2"}).choices[0].parts[1]
    assert isinstance(other, ToolCall) and other.id != second.id


def piece(path: str, **value: Any) -> dict[str, Any]:
    return frame({"functionCall": {"partialArgs": [{"jsonPath": path, **value}], "willContinue": True}})


def test_a_call_in_pieces_is_told_once_it_is_whole():
    told = parts_of(
        frame({"functionCall": {"name": "cook", "willContinue": True}, "thoughtSignature": "SIG"}),
        piece("$.recipe.name", stringValue="Lasa", willContinue=True),
        piece("$.recipe.name", stringValue="gne"),
        piece("$.recipe.steps[0]['a b'].grams", numberValue=200),
        piece("$.recipe.steps[1]", boolValue=False),
        piece('$["half"]', numberValue=0.5),
        piece("$.none", nullValue="NULL_VALUE"),
        frame({"functionCall": {}}),
        frame({"text": ""}, finish="STOP"),
    )
    (call,) = told
    assert isinstance(call, ToolCall) and (call.name, call.opaque_state) == ("cook", SEAL)
    recipe = {"name": "Lasagne", "steps": [{"a b": {"grams": 200}}, False]}
    assert json.loads(call.arguments) == {"recipe": recipe, "half": 0.5, "none": None}


@pytest.mark.parametrize("path", ["$", "", "$.a[999999999]", "$.a..b", "$['open", "$.b.c"])
def test_pieces_that_fit_nowhere_are_garbled(path: str):
    begun = [frame({"functionCall": {"name": "f", "willContinue": True}}), piece("$.b", stringValue="text", willContinue=True)]
    with pytest.raises(InvalidUpstreamResponse):
        streamed(*begun, piece(path, stringValue="x"))


def test_more_of_a_call_that_was_not_begun_is_garbled():
    with pytest.raises(InvalidUpstreamResponse):
        streamed(piece("$.a", stringValue="x"))


def test_parts_of_its_own_are_kept_whole():
    code, result = (
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    )
    told = whole(frame(code, result, {"text": "It is 1."}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, finish="STOP"))
    kinds = [json.loads(bytes(part.raw))["type"] if isinstance(part, Opaque) else part for part in told.choices[0].parts]
    assert kinds == ["executableCode", "codeExecutionResult", Text("It is 1."), "inlineData"]


@pytest.mark.parametrize(
    ("reason", "finish", "told"),
    [
        ("STOP", "stop", None),
        ("MAX_TOKENS", "length", None),
        ("SAFETY", "content_filter", "SAFETY"),
        ("RECITATION", "content_filter", "RECITATION"),
        ("PROHIBITED_CONTENT", "content_filter", "PROHIBITED_CONTENT"),
    ],
)
def test_its_words_for_an_end_are_openais_or_told_beside_them(reason: str, finish: str, told: str | None):
    assert whole({"candidates": [{"finishReason": reason}]}).choices == (Choice((), finish, upstream_finish_reason=told),)
    assert streamed(frame({"text": "x"}), {"candidates": [{"finishReason": reason}]}).choices == (
        Choice((Text("x"),), finish, upstream_finish_reason=told),
    )


def test_an_ask_that_was_blocked_is_an_answer_without_words():
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 7, "totalTokenCount": 7}}
    for told in (whole(blocked), streamed(blocked)):
        assert told.choices == (Choice((), "content_filter", upstream_finish_reason="PROHIBITED_CONTENT"),) and told.usage == Usage(7, 0)


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "LANGUAGE", "OTHER", "WHAT_MAY_COME"])
def test_an_end_that_is_no_answers_is_an_error_after_what_came_before(reason: str):
    with pytest.raises(UnparsableModelOutput, match=reason) as failed:
        whole(frame(finish=reason, finishMessage="Bad call: f("))
    assert failed.value.upstream_code == reason and not failed.value.counts_as_failure and "Bad call" in failed.value.message
    reader = GEMINI.stream_reader()
    heard: list[Event] = []
    with pytest.raises(UnparsableModelOutput):
        for event in reader.feed(wire([frame({"text": "Let me"}), frame(finish=reason)])):
            heard.append(event)
    assert assemble_response(heard).choices[0].parts == (Text("Let me"),)


def test_an_end_that_is_no_answers_is_counted():
    reader = GEMINI.stream_reader()
    heard: list[Event] = []
    with pytest.raises(UnparsableModelOutput):
        for event in reader.feed(wire([frame(finish="MALFORMED_FUNCTION_CALL", usage={"promptTokenCount": 9, "candidatesTokenCount": 4})])):
            heard.append(event)
    assert assemble_response(heard).usage == Usage(9, 4)


def test_a_stream_may_end_in_openais_words():
    reader = GEMINI.stream_reader()
    raw = wire([frame({"text": "x"}, finish="STOP")]) + b"data: [DONE]\r\n\r\n"
    assert assemble_response([*reader.feed(raw), *reader.finish()]).choices[0].parts == (Text("x"),) and reader.done


@pytest.mark.parametrize(
    ("told", "usage"),
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
def test_tokens_are_counted_once_and_all(told: dict[str, Any], usage: Usage | None):
    last = frame({"text": "x"}, finish="STOP", usage=told)
    assert whole(last).usage == streamed(last).usage == usage


def test_usage_that_comes_after_the_end_counts():
    told = streamed(frame({"text": "x"}, finish="STOP"), {"usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 1}})
    assert told.usage == Usage(3, 1)


def test_several_answers_are_told_apart():
    frames = [{"candidates": [{"index": index, "content": {"parts": [{"text": text}]}}]} for index, text in ((1, "b"), (0, "a"), (1, "B"))]
    ends = {"candidates": [{"index": index, "finishReason": "STOP"} for index in (0, 1)]}
    assert [choice.parts for choice in streamed(*frames, ends).choices] == [(Text("a"),), (Text("bB"),)]
    with pytest.raises(StreamTruncated):
        streamed(*frames, {"candidates": [{"index": 0, "finishReason": "STOP"}]})
    with pytest.raises(InvalidUpstreamResponse):
        streamed({"candidates": [{"index": 10**6}]})


CHUNKS: list[dict[str, Any]] = [
    {"web": {"uri": "https://a.test/1", "title": "One"}},
    {"retrievedContext": {"text": "As it stands there."}},
]


def grounding(*supports: tuple[dict[str, Any], list[int]]) -> dict[str, Any]:
    listed = [{"segment": segment, "groundingChunkIndices": chunks} for segment, chunks in supports]
    return {"groundingMetadata": {"groundingChunks": CHUNKS, "groundingSupports": listed}}


def cited(answer: ChatResponse) -> list[Any]:
    texts = [part for part in answer.choices[0].parts if isinstance(part, Text)]
    return [(each.url, each.title, each.quote, text.text[each.start : each.end]) for text in texts for each in text.citations]


def test_places_of_sources_are_counted_in_bytes_and_told_in_characters():
    text = "Grüße 😀 aus Köln. Mehr."
    start, end = len("Grüße 😀 ".encode()), len("Grüße 😀 aus Köln.".encode())
    sources = grounding(({"startIndex": start, "endIndex": end, "text": "aus Köln."}, [0, 1, 9]))
    wanted = [("https://a.test/1", "One", None, "aus Köln."), (None, None, "As it stands there.", "aus Köln.")]
    assert cited(whole(frame({"text": text}, finish="STOP", **sources))) == wanted
    halves = [
        frame({"text": text[:9]}),
        frame({"text": text[9:]}),
        frame({"text": "", "thoughtSignature": "SIG"}, finish="STOP", **sources),
    ]
    assert cited(streamed(*halves)) == wanted
    without = grounding(({"startIndex": start, "endIndex": end}, [0]))
    assert cited(whole(frame({"text": text}, finish="STOP", **without))) == wanted[:1]


def test_a_source_is_told_of_the_text_that_it_repeats_and_once():
    sources = grounding(({"endIndex": 5, "text": "found"}, [0]))
    frames = [frame({"text": "It was ", "thoughtSignature": "S"}, **sources), frame({"text": "found."}, finish="STOP", **sources)]
    told = streamed(*frames)
    assert cited(told) == [("https://a.test/1", "One", None, "found")]
    nowhere = whole(frame({"text": "Other."}, finish="STOP", **sources)).choices[0].parts[0]
    assert isinstance(nowhere, Text) and [(each.start, each.end) for each in nowhere.citations] == [(None, None)]


@pytest.mark.parametrize("key", ["citationSources", "citations"])
def test_what_it_recites_is_cited_too(key: str):
    told = whole(
        frame({"text": "Où est-il?"}, finish="STOP", citationMetadata={key: [{"startIndex": 4, "endIndex": 7, "uri": "https://b.test"}]})
    )
    assert cited(told) == [("https://b.test", None, None, "est")]


@pytest.mark.parametrize("broken", [{"groundingMetadata": {"groundingSupports": 5}}, {"citationMetadata": []}])
def test_sources_that_cannot_be_read_cost_no_answer(broken: dict[str, Any]):
    assert whole(frame({"text": "x"}, finish="STOP", **broken)).choices[0].parts == (Text("x"),)


def test_logprobs_are_told_with_all_the_fields_that_clients_want():
    result = {
        "chosenCandidates": [{"token": "Hi", "logProbability": -0.5, "tokenId": 3}, {"token": "!"}],
        "topCandidates": [{"candidates": [{"token": "Hi", "logProbability": -0.5}, {"token": "Ho", "logProbability": -1.5}]}],
    }
    told = whole(frame({"text": "Hi!"}, finish="STOP", logprobsResult=result)).choices[0].logprobs
    assert told is not None
    first, second = (json.loads(bytes(each)) for each in told)
    assert first == {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": None,
        "top_logprobs": [{"token": "Hi", "logprob": -0.5, "bytes": None}, {"token": "Ho", "logprob": -1.5, "bytes": None}],
    }
    assert second == {"token": "!", "logprob": 0.0, "bytes": None, "top_logprobs": []}


@pytest.mark.parametrize("frames", [[], [frame({"text": "x"})], [{"usageMetadata": {"promptTokenCount": 1}}]])
def test_half_an_answer_is_cut_short(frames: list[Any]):
    with pytest.raises(StreamTruncated):
        streamed(*frames)


@pytest.mark.parametrize(
    "told", [b"[]", b'[{"candidates":[]}]', b"{}", b"not JSON", b'{"candidates":5}', b'{"candidates":[{"content":{"parts":[5]}}]}']
)
def test_what_is_no_answer_is_garbled(told: bytes):
    with pytest.raises(InvalidUpstreamResponse):
        GEMINI.read_response(told)


def test_an_array_is_none_of_the_events_that_were_asked_for_unless_it_is_an_error():
    raw = json.dumps([frame({"text": "x"}, finish="STOP")]).encode()
    error = json.dumps([{"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}], indent=1).encode()
    for blocks in ([raw], [raw[:5], raw[5:]]):
        with pytest.raises(InvalidUpstreamResponse):
            list(events(blocks))
    for blocks in ([error], [b"  ", error[:1], error[1:30], error[30:]]):
        with pytest.raises(Overloaded, match="Overloaded"):
            list(events(blocks))
    with pytest.raises(Overloaded):
        GEMINI.read_response(error)


@pytest.mark.parametrize(("code", "kind"), [(400, UpstreamRejected), (429, Overloaded), (500, UpstreamFailed)])
def test_an_error_in_a_stream_comes_after_what_came_before_it(code: int, kind: type[Exception]):
    heard: list[Event] = []
    with pytest.raises(kind):
        for event in GEMINI.stream_reader().feed(
            wire([frame({"text": "Hi"}), {"error": {"code": code, "message": "It is so.", "status": "X"}}])
        ):
            heard.append(event)
    assert assemble_response(heard).choices[0].parts == (Text("Hi"),)


def test_half_a_surrogate_pair_is_what_cannot_be_read():
    raw = json.dumps(frame({"text": "a\ud83d"}, finish="STOP")).encode()
    assert GEMINI.read_response(raw).choices[0].parts == (Text("a\ufffd"),)


def test_when_it_was_made_is_told_where_vertex_tells_it():
    told = {**frame({"text": "x"}, finish="STOP"), "createTime": "2026-08-19T14:36:02.480872Z"}
    assert whole(told).created == 1787150162
    assert replace(whole({**told, "createTime": "soon"}), created=1) == replace(whole(told), created=1)
