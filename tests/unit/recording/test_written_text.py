"""Text for full-text search: all that was written, in any API, the newest first, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.recording.rows.written_text import read_text

MAX = 10_000


def encode(document: Any) -> bytes:
    return json.dumps(document).encode()


def stream(*frames: Any) -> bytes:
    return b"".join(b"data: " + encode(frame) + b"\n\n" for frame in frames) + b"data: [DONE]\n\n"


def chunk(delta: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"id": "unread", "object": "chat.completion.chunk", "model": "unread", "choices": [{"index": index, "delta": delta}]}


def call_chunk(**function: str) -> dict[str, Any]:
    return chunk({"tool_calls": [{"index": 1, "id": "unread", "type": "unread", "function": function}]})


CHAT = {
    "model": "unread",
    "messages": [
        {"role": "system", "content": "one"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "two"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,unread"}}],
        },
        {
            "role": "assistant",
            "tool_calls": [{"id": "unread", "function": {"name": "three", "arguments": '{"unread": "f\\u00fcnf", "n": [6]}'}}],
        },
        {"role": "tool", "tool_call_id": "unread", "content": "seven"},
    ],
    "tools": [{"type": "function", "function": {"name": "unread", "description": "unread"}}],
    "metadata": {"unread": "unread"},
    "user": "unread",
}
MESSAGES = {
    "system": [{"type": "text", "text": "one", "cache_control": {"type": "unread"}}],
    "messages": [
        {"role": "user", "content": "two"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "three", "signature": "unread"},
                {"type": "tool_use", "id": "unread", "name": "four", "input": {"data": {"id": "five"}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "unread", "content": [{"type": "text", "text": "six"}]},
                {"type": "image", "source": {"type": "base64", "media_type": "unread", "data": "unread"}},
            ],
        },
    ],
}
RESPONSES = {
    "instructions": "one",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "two"}]},
        {"type": "function_call", "call_id": "unread", "name": "three", "arguments": '{"unread": "four"}'},
        {"type": "function_call_output", "call_id": "unread", "output": "five"},
        {"type": "reasoning", "encrypted_content": "unread", "summary": [{"type": "summary_text", "text": "six"}]},
    ],
}

REQUESTS: list[tuple[Any, str]] = [
    (CHAT, "seven three fünf 6 two one"),
    (MESSAGES, "six three four five two one"),
    (RESPONSES, "six five three four two one"),
    ({"input": "one", "instructions": "two"}, "one two"),
    ({"prompt": ["one", "two"], "suffix": "three"}, "two one three"),
    ({"prompt": [1, 2, 3], "model": "unread"}, ""),
    ({"input": ["one", "two"], "model": "unread"}, "two one"),
    ({"query": "one", "documents": ["two", {"text": "three"}]}, "one three two"),
    ({"text_1": "one", "text_2": ["two"]}, "one two"),
    ([{"content": "no request of any API"}], ""),
]
RESULTS: list[tuple[bytes, str]] = [
    (
        encode(
            {
                "id": "unread",
                "choices": [{"index": 0, "message": {"role": "unread", "content": "one", "reasoning_content": "two"}}, {"text": "three"}],
            }
        ),
        "one two three",
    ),
    (
        encode(
            {
                "choices": [
                    {
                        "message": {
                            "content": None,
                            "tool_calls": [{"id": "unread", "function": {"name": "one", "arguments": '{"city": "two"}'}}],
                        }
                    }
                ]
            }
        ),
        "one two",
    ),
    (
        encode(
            {
                "content": [{"type": "text", "text": "one"}, {"type": "tool_use", "name": "two", "input": {"x": "three"}}],
                "usage": {"tier": "unread"},
            }
        ),
        "one two three",
    ),
    (
        encode(
            {
                "output": [
                    {"type": "reasoning", "summary": []},
                    {"type": "message", "content": [{"type": "output_text", "text": "one", "logprobs": [{"token": "unread"}]}]},
                ],
                "instructions": "unread",
                "tools": ["unread"],
            }
        ),
        "one",
    ),
    (encode({"results": [{"index": 0, "document": {"text": "one"}, "relevance_score": 0.5}]}), "one"),
    (
        stream(
            chunk({"role": "unread", "content": ""}),
            chunk({"content": "king"}),
            chunk({"content": "two"}, 1),
            chunk({"content": "fisher"}),
            chunk({"reasoning": "three"}),
        ),
        "kingfisher two three",
    ),
    (stream(call_chunk(name="one", arguments=""), call_chunk(arguments='{"unread": "tw'), call_chunk(arguments='o"}')), "one two"),
    (stream(call_chunk(arguments='{"cut": "off')), '{"cut": "off'),
    (stream({"choices": [{"index": 0, "text": "o"}]}, {"choices": [{"index": 0, "text": "ne"}]}), "one"),
    (stream({"choices": [{"delta": {"content": [{"type": "text", "text": "one"}]}}]}), "one"),
    (
        stream(
            {"type": "message_start", "message": {"id": "unread", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": "unread"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "one"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "unread"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "tw"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "o"}},
            {
                "type": "content_block_start",
                "index": 2,
                "content_block": {"type": "tool_use", "id": "unread", "name": "three", "input": {}},
            },
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"unread": "fo'}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": 'ur"}'}},
            {"type": "message_delta", "delta": {"stop_reason": "unread"}},
        ),
        "one two three four",
    ),
    (
        stream(
            {"type": "response.created", "response": {"instructions": "unread"}},
            {"type": "response.output_text.delta", "item_id": "unread", "output_index": 0, "content_index": 0, "delta": "o"},
            {"type": "response.output_text.delta", "item_id": "unread", "output_index": 0, "content_index": 0, "delta": "ne"},
            {"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": "unread"},
            {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"unread": '},
            {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '"two"}'},
            {"type": "response.completed", "response": {"output": [{"content": [{"text": "unread"}]}]}},
        ),
        "one two",
    ),
    (b"data: {not json\n\ndata: [DONE]\n\n", ""),
    (b"\xff\xfbaudio", ""),
    (b"", ""),
    (b"[withheld: 12 bytes]", ""),
]


@pytest.mark.parametrize(("request_body", "text"), REQUESTS, ids=[str(list(body))[:50] for body, _ in REQUESTS])
def test_text_of_a_request_is_read_the_newest_message_first(request_body: Any, text: str) -> None:
    assert read_text(encode(request_body), b"", MAX).split() == text.split()


@pytest.mark.parametrize(("response", "text"), RESULTS, ids=range(len(RESULTS)))
def test_text_of_a_response_is_read_whole_though_a_stream_splits_it(response: bytes, text: str) -> None:
    assert read_text(b"", response, MAX).split() == text.split()


def test_newest_text_is_kept_within_a_bound():
    messages = [{"role": "user", "content": f"m{number:03d} " * 20} for number in range(100)]
    response = encode({"choices": [{"message": {"content": "r " * 1000}}]})
    text = read_text(encode({"messages": messages}), response, 1000)
    assert len(text) <= 1001 and text.count("r") == 250 and "m099" in text and "m090" not in text
    assert len(read_text(b"", response, 1000)) <= 1001, "without a request all of it is the response's"
    short = read_text(encode({"messages": messages}), encode({"choices": [{"message": {"content": "yes"}}]}), 1000)
    assert short.startswith("yes") and 990 < len(short) <= 1001
    long_stream = stream(*[chunk({"content": "word "})] * 1000)
    assert len(read_text(b"", long_stream, 1000)) <= 1001


def test_media_is_no_text():
    image = "iVBORw0KGgo" * 100
    body = {"messages": [{"content": [{"type": "input_audio", "input_audio": {"data": image}}, {"type": "x", "blob": image}, "yes"]}]}
    assert read_text(encode(body), b"", MAX).split() == ["yes"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda each: (
            st.lists(each)
            | st.dictionaries(st.sampled_from(["messages", "content", "input", "arguments", "delta", "choices", "index", "x"]), each)
        ),
    ),
    st.integers(1, 100),
)
def test_any_document_is_read_within_the_bound(document: Any, max_characters: int) -> None:
    for response in (encode(document), stream(document)):
        assert len(read_text(encode(document), response, max_characters)) <= max_characters + 1


def test_deeply_nested_documents_are_read_no_deeper_than_a_bound():
    deep = b'{"messages": ' + b"[" * 20_000 + b'"x"' + b"]" * 20_000 + b"}"
    nested = b'{"messages": ' + b"[" * 200 + b'"x"' + b"]" * 200 + b"}"
    assert [read_text(body, body, MAX).strip() for body in (deep, nested)] == ["", ""]
