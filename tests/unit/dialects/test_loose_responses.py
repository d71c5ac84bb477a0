"""Responses with numbers and strings in each other's place, late names and missing arguments of calls, and loose framing are read."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from app.gateway.response_translation import translate
from providers.canonical.chat import Text, ToolCall, Usage
from providers.canonical.errors import InvalidUpstreamResponse
from providers.canonical.events import assemble_response
from providers.canonical.loose_types import with_expected_types
from providers.canonical.sse import SSEDecoder, sse_frame
from providers.dialect import ResponseMeta
from providers.dialects.catalogue import CALLER_DIALECTS, CHAT_DIALECTS, ENGINE_DIALECTS
from tests.unit.dialects.test_unknown_endings import ENDINGS, stream_bytes

META = ResponseMeta("ID", "EP", "m", 1, wants_usage=True)
CHAT_CALLERS = ("openai_chat", "openai_responses", "anthropic_messages")
OSLO = ToolCall("call_1", "get_weather", '{"city":"Oslo"}')


def function(name: Any = ..., arguments: Any = ..., **more: Any) -> dict[str, Any]:
    return {"index": 0, "function": {key: each for key, each in (("name", name), ("arguments", arguments)) if each is not ...}, **more}


LATE_NAMES: dict[str, Sequence[dict[str, Any]]] = {
    "null": [function(None, "", id="call_1"), function("get_weather", ""), function(arguments='{"city":"Oslo"}')],
    "empty": [function("", "", id="call_1"), function("get_weather", '{"city":"Oslo"}')],
    "missing": [function(id="call_1"), function("get_weather", '{"city":"Oslo"}')],
    "after arguments": [function(arguments='{"ci', id="call_1"), function("get_weather", 'ty":"Oslo"}')],
    "after all arguments": [function(arguments='{"city":"Oslo"}', id="call_1"), function("get_weather", "")],
    "in pieces": [function("get_", "", id="call_1"), function("weather", ""), function(arguments='{"city":"Oslo"}')],
    "growing": [function("get_", "", id="call_1"), function("get_weather", ""), function(arguments='{"city":"Oslo"}')],
    "repeated": [function("get_weather", "", id="call_1"), function("get_weather", '{"city":'), function("get_weather", '"Oslo"}')],
    "repeated with its id": [function("get_weather", '{"city":', id="call_1"), function("get_weather", '"Oslo"}', id="call_1")],
    "with its id later": [function(None, ""), function("get_weather", '{"city":"Oslo"}', id="call_1")],
}


def chat_stream(*calls: dict[str, Any]) -> bytes:
    deltas: list[Any] = [{"role": "assistant", "content": None}, *({"tool_calls": [call]} for call in calls)]
    chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"id": "x", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return b"".join(sse_frame(json.dumps(each).encode()) for each in chunks) + b"data: [DONE]\n\n"


def streamed(caller: str, raw: bytes) -> bytes:
    editor = translate.make_stream_editor(CALLER_DIALECTS[caller], CHAT_DIALECTS["openai_chat"], META, streamed=True)
    return editor.feed(raw) + editor.finish()


def calls_in(caller: str, raw: bytes) -> list[tuple[str, str, str]]:
    """The calls as clients put them together: Chat's concatenate names, others read them at the start of a call or at its end."""
    calls: dict[Any, list[str]] = {}
    for line in raw.decode().split("\n"):
        event: Any = json.loads(line[6:]) if line.startswith("data: {") else {}
        for choice in event.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                if call["index"] not in calls:
                    assert call["id"] and call["function"]["name"], "the AI SDK needs both at the start of a call"
                kept = calls.setdefault(call["index"], ["", "", ""])
                kept[0] += call.get("id") or ""
                kept[1] += call["function"].get("name") or ""
                kept[2] += call["function"].get("arguments") or ""
        match event:
            case {"type": "content_block_start", "index": at, "content_block": {"type": "tool_use", "id": id, "name": name}}:
                calls[at] = [id, name, ""]
            case {"type": "content_block_delta", "index": at, "delta": {"type": "input_json_delta", "partial_json": text}}:
                calls[at][2] += text
            case {"type": "response.output_item.added", "item": {"type": "function_call", "name": name}}:
                assert name
            case {"type": "response.output_item.done", "output_index": at, "item": {"type": "function_call", **item}}:
                calls[at] = [item["call_id"], item["name"], item["arguments"]]
            case _:
                pass
    return [(id, name, arguments) for id, name, arguments in calls.values()]


@pytest.mark.parametrize("caller", CHAT_CALLERS)
@pytest.mark.parametrize("kind", LATE_NAMES)
def test_name_that_comes_late_in_pieces_or_again_is_whole(kind: str, caller: str) -> None:
    assert calls_in(caller, streamed(caller, chat_stream(*LATE_NAMES[kind]))) == [(OSLO.id, OSLO.name, OSLO.arguments)]


@pytest.mark.parametrize("caller", CHAT_CALLERS)
@pytest.mark.parametrize("arguments", [..., None, ""], ids=repr)
def test_call_without_arguments_has_an_empty_object(arguments: Any, caller: str) -> None:
    call = function("now", arguments, id="call_1", type="function")
    allowed = {"{}", ""} if caller == "anthropic_messages" or (caller, arguments) == ("openai_chat", "") else {"{}"}
    ((id, name, text),) = calls_in(caller, streamed(caller, chat_stream(call)))
    assert (id, name) == ("call_1", "now") and text in allowed
    whole = {"id": "x", "choices": [{"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    raw = json.dumps(whole).encode()
    written = translate.translate_response(raw, CALLER_DIALECTS[caller], CHAT_DIALECTS["openai_chat"], META).raw
    (part,) = CHAT_DIALECTS[caller].read_response(written).choices[0].parts
    assert part == ToolCall("call_1", "now", "{}")
    body: Any = json.loads(written)
    if caller == "openai_responses":
        assert body["output"][0]["arguments"] == "{}"
    if caller == "openai_chat":
        assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] in allowed


@pytest.mark.parametrize("caller", CHAT_CALLERS)
def test_call_that_never_gets_a_name_is_an_invalid_response_and_one_without_anything_is_none(caller: str) -> None:
    with pytest.raises(InvalidUpstreamResponse, match="without a name"):
        streamed(caller, chat_stream(function(None, '{"a":1}', id="call_1")))
    nothing = function("", "", id="")
    assert calls_in(caller, streamed(caller, chat_stream(nothing, function("now", "{}", id="call_1", index=1)))) == [
        ("call_1", "now", "{}")
    ]


FRAMINGS = {
    "single newlines": (b"\n\n", b"\n"),
    "CRLF": (b"\n", b"\r\n"),
    "CR": (b"\n", b"\r"),
    "no space": (b"data: ", b"data:"),
    "comments": (b"data: ", b": ping\n\ndata: "),
}


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_loosely_framed_stream_has_the_same_events(framing: str, size: int) -> None:
    raw = chat_stream(function("now", '{"a":"}"}', id="call_1"))
    loose = b"\xef\xbb\xbf" + raw.replace(*FRAMINGS[framing]).rstrip()
    expected, decoder = SSEDecoder().feed(raw), SSEDecoder()
    got = [data for at in range(0, len(loose), size) for data in decoder.feed(loose[at : at + size])]
    assert got + decoder.finish() == expected


def test_event_whose_data_has_several_lines_stays_one() -> None:
    assert SSEDecoder().feed(b'data: {"a":\ndata: {"b":1}\ndata: }\n\n') == [b'{"a": {"b":1} }']


LOOSE: dict[str, dict[str, Any]] = {
    "index as a string": {"choices": [{"index": "0"}]},
    "index with a fraction": {"choices": [{"index": 0.0}]},
    "index null": {"choices": [{"index": None}]},
    "index missing": {"choices": [{"index": ...}]},
    "created as a string": {"created": "1790000000"},
    "created with a fraction": {"created": 1790000000.5},
    "created null": {"created": None},
    "object null": {"object": None},
    "tokens as strings": {"usage": {"prompt_tokens": "3", "completion_tokens": "2", "total_tokens": "5"}},
    "tokens with fractions": {"usage": {"prompt_tokens": 3.0, "completion_tokens": 2.0, "total_tokens": 5.0}},
    "model as a number": {"model": 4},
}


def loose_chunks(change: dict[str, Any]) -> list[Any]:
    base: Any = {"id": "x", "object": "chat.completion.chunk", "created": 1790000000, "model": "m", "usage": None}
    choices: Any = [
        {"delta": {"role": "assistant", "content": "Hel"}},
        {"delta": {"content": "lo."}},
        {"delta": {}, "finish_reason": "stop"},
    ]
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    index = change.get("choices", [{"index": 0}])[0]["index"]
    more = {key: each for key, each in change.items() if key not in ("choices", "usage")}
    chunks = [{**base, "choices": [({} if index is ... else {"index": index}) | each], **more} for each in choices]
    return [*chunks, {**base, "choices": [], "usage": change.get("usage", usage), **more}]


@pytest.mark.parametrize("caller", CHAT_CALLERS)
@pytest.mark.parametrize("kind", LOOSE)
def test_chat_stream_with_loose_types_is_read_and_written_as_the_callers_api_says(kind: str, caller: str) -> None:
    chunks = loose_chunks(LOOSE[kind])
    editor = translate.make_stream_editor(CALLER_DIALECTS[caller], CHAT_DIALECTS["openai_chat"], META, streamed=True)
    written = editor.feed(stream_bytes("openai_chat", chunks)) + editor.finish()
    assert (editor.usage, editor.finish_reason) == (Usage(3, 2), "stop")
    reader = CHAT_DIALECTS[caller].stream_reader()
    response = assemble_response([*reader.feed(written), *reader.finish()])
    assert response.choices[0].parts == (Text("Hello."),)
    for line in written.decode().split("\n"):
        for choice in json.loads(line[6:]).get("choices", ()) if line.startswith("data: {") else ():
            assert choice["index"] == 0 and isinstance(choice["index"], int)


NUMBERS = ("prompt_token_count", "generation_token_count", "inputTokens", "outputTokens", "input_tokens", "output_tokens", "created_at")


@pytest.mark.parametrize("target", ENDINGS)
def test_counts_in_strings_are_counts_in_every_dialect(target: str) -> None:
    whole, _ = ENDINGS[target]
    text = json.dumps(whole)
    for name in NUMBERS:
        text = text.replace(f'"{name}": 1', f'"{name}": "1"')
    text = text.replace('"index": 0', '"index": "0"')
    engine = ENGINE_DIALECTS[target]
    assert engine.read_response(text.encode()).usage == engine.read_response(json.dumps(whole).encode()).usage


def test_what_a_model_wrote_keeps_its_types() -> None:
    raw = b'{"index":"1","arguments":{"index":"2","id":3},"input":{"created":"4"},"input_tokens":"5","id":6}'
    assert json.loads(with_expected_types(raw)) == {
        **{"index": 1, "arguments": {"index": "2", "id": 3}, "input": {"created": "4"}},
        **{"input_tokens": 5, "id": "6"},
    }
    assert with_expected_types(b'{"index":1,"id":"2"}') == b'{"index":1,"id":"2"}'
