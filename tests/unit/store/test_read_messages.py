"""Recorded exchanges as messages: the same from every API, streamed or not; what cannot be read is shown with the reason."""

import base64
import json
from typing import Any

import pytest

from app.store.formats.content_packing import pack
from app.store.messages import read_messages as module
from app.store.messages import turns
from app.store.messages.parts import MediaPart, OtherPart, ReasoningPart, RefusalPart, TextPart, ToolCallPart, ToolResultPart
from app.store.messages.previews import MAX_CHARACTERS, preview_of
from app.store.messages.read_messages import Messages, PackedExchange, read_media, read_messages

PNG = base64.b64encode(b"\x89PNG..").decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALL = ToolCallPart("call_1", "weather", '{"city": "Oslo"}', 16, True)


def _chat() -> tuple[dict[str, Any], dict[str, Any]]:
    tool = {"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": SCHEMA}}
    called = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Oslo"}'}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    request = {
        "model": "m",
        "temperature": 0.5,
        "tools": [tool],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        ],
    }
    message = {"role": "assistant", "content": "It rains.", "reasoning_content": "Hm."}
    response = {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }
    return request, response


def _messages() -> tuple[dict[str, Any], dict[str, Any]]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    request = {
        "model": "m",
        "max_tokens": 100,
        "temperature": 0.5,
        "system": "Be brief.",
        "tools": [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "rain"}]},
        ],
    }
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "It rains."}]
    usage = {"input_tokens": 1, "output_tokens": 1}
    response = {
        "id": "x",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "end_turn",
        "usage": usage,
    }
    return request, response


def _responses() -> tuple[dict[str, Any], dict[str, Any]]:
    request = {
        "model": "m",
        "temperature": 0.5,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather", "description": "The weather.", "parameters": SCHEMA, "strict": False}],
        "input": [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
                ],
            },
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "rain"},
        ],
    }
    output: Any = [
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "It rains.", "annotations": []}],
        },
    ]
    response = {"id": "resp_x", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": output}
    return request, response


EVERY_API = [("openai_chat", _chat()), ("anthropic_messages", _messages()), ("openai_responses", _responses())]


def _read(route: str, request: Any, response: Any, *, streamed: bool = False, max_characters: int = 1000) -> Messages:
    def packed(content: Any) -> bytes | None:
        return None if content is None else pack(content if isinstance(content, bytes) else json.dumps(content).encode())

    return read_messages(PackedExchange(route, streamed, packed(request), packed(response)), max_characters)


@pytest.mark.parametrize(("route", "made"), EVERY_API)
def test_every_api_reads_as_the_same_messages(route: str, made: tuple[dict[str, Any], dict[str, Any]]):
    found = _read(route, *made)
    assert found.problems == () and found.omitted == 0
    assert [(message.role, message.parts) for message in found.input] == [
        (found.input[0].role, (TextPart("Be brief.", 9),)),
        ("user", (TextPart("What is this?", 13), MediaPart("image", "image/png", 6, 1, None, None))),
        ("assistant", (CALL,)),
        ("user", (ToolResultPart("call_1", (TextPart("rain", 4),), False),)),
    ]
    assert found.input[0].role in ("system", "developer") and found.new_from == 3
    [answer] = found.output
    assert (answer.role, answer.finish_reason) == ("assistant", "stop")
    assert answer.parts == (ReasoningPart("Hm.", 3), TextPart("It rains.", 9))
    [tool] = found.tools
    assert (tool.name, tool.description, json.loads(tool.parameters or "")) == ("weather", "The weather.", SCHEMA)
    assert found.settings["temperature"] == 0.5


def _frames(*frames: dict[str, Any], done: bool = True) -> bytes:
    return b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames) + (b"data: [DONE]\n\n" if done else b"")


def _delta(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def test_a_stream_reads_as_one_message_and_a_broken_one_as_far_as_it_came():
    request, _ = _chat()
    deltas = (_delta(role="assistant", content="It "), _delta(content="rains."))
    whole = _read("openai_chat", request, _frames(*deltas, _delta("stop")), streamed=True)
    assert whole.output[0].parts == (TextPart("It rains.", 9),) and whole.output[0].finish_reason == "stop" and whole.problems == ()
    broken = _read("openai_chat", request, _frames(*deltas, done=False) + b'data: {"id"', streamed=True)
    assert broken.output[0].parts == (TextPart("It rains.", 9),) and "not complete" in broken.problems[0]


def test_structured_output_refusals_and_invalid_arguments_are_marked():
    request, response = _chat()
    request["response_format"] = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA}}
    message = response["choices"][0]["message"]
    message |= {"content": '{"city":"Oslo"}', "reasoning_content": None}
    found = _read("openai_chat", request, response)
    assert found.output[0].parts == (TextPart('{"city":"Oslo"}', 15, is_json=True),)
    assert found.output_format is not None and (found.output_format.kind, found.output_format.name) == ("json_schema", "weather")
    message |= {"content": None, "refusal": "No."}
    assert _read("openai_chat", request, response).output[0].parts == (RefusalPart("No.", 3),)
    call = {"id": "call_2", "type": "function", "function": {"name": "weather", "arguments": '{"city":'}}
    message |= {"refusal": None, "tool_calls": [call]}
    assert _read("openai_chat", request, response).output[0].parts == (ToolCallPart("call_2", "weather", '{"city":', 8, False),)


def test_long_parts_and_conversations_are_cut(monkeypatch: pytest.MonkeyPatch):
    request, response = _chat()
    found = _read("openai_chat", request, response, max_characters=4)
    assert found.input[0].parts == (TextPart("Be b", 9),) and found.output[0].parts[-1] == TextPart("It r", 9)
    monkeypatch.setattr(module, "MAX_MESSAGES", 2)
    cut = _read("openai_chat", request, response)
    assert (cut.omitted, len(cut.input), cut.new_from) == (2, 2, 1)
    monkeypatch.setattr(module, "MAX_READ_BYTES", 100)
    unread = _read("openai_chat", request, response)
    assert unread.input == unread.output == () and len(unread.problems) == 2


def test_what_is_no_chat_or_cannot_be_read_is_shown_as_it_is_with_the_reason():
    embedding = _read("openai_embeddings", {"model": "m", "input": "x"}, {"data": []})
    assert isinstance(embedding.input[0].parts[0], OtherPart) and "no chats" in embedding.problems[0]
    for wrong in (b"not json", b'{"model": "m"}', b"\xff\xfe", b"[" * 100_000):
        found = _read("openai_chat", wrong, b'{"error": {"message": "no"}}')
        assert len(found.problems) == 2 and isinstance(found.output[0].parts[0], OtherPart)
    nothing = _read("openai_chat", None, None)
    assert nothing.input == nothing.output == nothing.problems == ()


@pytest.mark.parametrize("item", [{"id": "msg_1"}, {"type": None, "id": "msg_1", "role": None}, {"id": ""}])
def test_an_item_that_is_named_by_its_id_alone_is_shown_as_it_is(item: dict[str, Any]):
    raw = json.dumps({"model": "m", "input": [{"role": "user", "content": "And now?"}, item]}).encode()
    found = _read("openai_responses", raw, None)
    assert found.problems == () and isinstance(found.input[1].parts[0], OtherPart)
    assert preview_of("openai_responses", raw) == "And now?"


def test_turns_have_messages_as_long_as_these_are_not_too_many(monkeypatch: pytest.MonkeyPatch):
    long = {"model": "m", "messages": [{"role": "user", "content": "a" * 1000}] * 10}
    exchanges = [(f"{number}", PackedExchange("openai_chat", False, pack(json.dumps(long).encode()), None)) for number in range(5)]
    assert [id for id, _ in turns.read_exchanges(exchanges, 1000)] == ["0", "1", "2", "3", "4"]
    monkeypatch.setattr(turns, "MAX_SHOWN_BYTES", 25_000)
    assert [id for id, _ in turns.read_exchanges(exchanges, 1000)] == ["0", "1"]
    assert len([*turns.read_exchanges(exchanges, 10)]) == 5


def test_media_are_found_by_their_number():
    request, _ = _chat()
    exchange = PackedExchange("openai_chat", False, pack(json.dumps(request).encode()), None)
    media = read_media(exchange, 1)
    assert media is not None and (media.media_type, media.data) == ("image/png", PNG)
    assert read_media(exchange, 0) is None and read_media(exchange, 2) is None


@pytest.mark.parametrize(("route", "made"), EVERY_API)
def test_a_preview_is_the_newest_text_of_a_user(route: str, made: tuple[dict[str, Any], dict[str, Any]]):
    assert preview_of(route, json.dumps(made[0]).encode()) == "What is this?"
    long = {"messages": [{"role": "user", "content": "a\n\n b" * 1000}], "input": "a\n\n b" * 1000, "max_tokens": 1}
    found = preview_of(route, json.dumps({"model": "m", **long}).encode())
    assert found is not None and found.startswith("a ba b") and len(found) <= MAX_CHARACTERS
    assert preview_of(route, b"{") is None
