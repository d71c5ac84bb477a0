"""Media that a body names by URL for an engine: found in every dialect, fetched or refused, and never sent on unless it is listed."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from app.gateway.media import body_media
from providers.canonical.chat import Inline
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body

PNG = Inline("image/png", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode())
DATA_URL = f"data:image/png;base64,{PNG.data}"
METADATA = "http://169.254.169.254/latest/meta-data"


def chat(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, *parts]}]}


# A body around one URL, in the positions that engines read.
POSITIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "chat": lambda url: chat({"type": "image_url", "image_url": {"url": url}}),
    "chat, as a string": lambda url: chat({"type": "image_url", "image_url": url}),
    "chat, without a type": lambda url: chat({"image_url": {"url": url}}),
    "video": lambda url: chat({"type": "video_url", "video_url": {"url": url}}),
    "audio": lambda url: chat({"type": "audio_url", "audio_url": {"url": url}}),
    "audio as data": lambda url: chat({"type": "input_audio", "input_audio": {"data": url, "format": "wav"}}),
    "llama.cpp's video": lambda url: chat({"type": "input_video", "input_video": {"url": url}}),
    "image": lambda url: chat({"type": "image", "image": url}),
    "frames of a video": lambda url: chat({"type": "video", "video": [url]}),
    "video with a list": lambda url: chat({"type": "video_url", "video_url": {"url": [url]}}),
    "image with a url": lambda url: chat({"type": "image", "url": url}),
    "tool result": lambda url: {"messages": [{"role": "tool", "content": [{"type": "image_url", "image_url": {"url": url}}]}]},
    "responses": lambda url: {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
    "responses, file": lambda url: {"input": [{"role": "user", "content": [{"type": "input_file", "file_url": url}]}]},
    "responses, output of a tool": lambda url: {
        "input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}]
    },
    "messages": lambda url: chat({"type": "image", "source": {"type": "url", "url": url}}),
    "messages, tool result": lambda url: chat(
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "document", "source": {"type": "url", "url": url}}]}
    ),
    "rerank": lambda url: {"query": "q", "documents": {"content": [{"type": "image_url", "image_url": {"url": url}}]}},
    "encode": lambda url: {"image_data": [[url]]},
}


def slots_of(body: Any, *, escaped: bool = False) -> tuple[Body, Any, list[body_media.MediaSlot]]:
    raw = json.dumps({"model": "m", **body}).encode()
    if escaped:
        raw = raw.replace(b"_url", b"\\u005furl").replace(b'"url', b'"\\u0075rl').replace(b'"image"', b'"im\\u0061ge"')
    assert body_media.may_name_media(raw)
    read = Body.read(raw)
    return read, *body_media.decode_media(read)


@pytest.mark.parametrize("beside", [b"1e400", b'"\xff"', b"[" * 2_000 + b"]" * 2_000], ids=["number", "bytes", "nesting"])
@pytest.mark.parametrize("position", POSITIONS)
def test_media_beside_what_only_an_engine_can_read_is_refused(position: str, beside: bytes):
    """Python reads 1e400 as infinity, for instance: the engine would open the URL that was not looked at."""
    raw = json.dumps(POSITIONS[position](METADATA)).encode()
    key = list(json.loads(raw))[-1]
    body = Body({key: Raw(b"[%b,%b]" % (Body.read(raw)[key], beside))})
    with pytest.raises(InvalidRequest) as refused:
        body_media.decode_media(body)
    assert refused.value.param == key


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("url", ["file:///etc/passwd", "/etc/passwd.png", "gopher://x/", "FILE:/etc/hosts", "s3://bucket/key", ""])
def test_media_that_is_no_http_or_data_url_is_refused(position: str, url: str):
    _, _, slots = slots_of(POSITIONS[position](url))
    with pytest.raises(InvalidRequest, match="http, https or data"):
        body_media.urls_to_fetch(slots, ())


@pytest.mark.parametrize("escaped", [False, True])
@pytest.mark.parametrize("position", POSITIONS)
def test_media_url_of_any_dialect_is_replaced_by_its_bytes(position: str, escaped: bool):
    body, fields, slots = slots_of(POSITIONS[position](METADATA), escaped=escaped)
    assert body_media.urls_to_fetch(slots, ("example.com",)) == {METADATA}
    body_media.write_inline(slots, {METADATA: PNG})
    written = Body({**body, **fields}).write()
    assert b"169.254" not in written and PNG.data.encode() in written


@pytest.mark.parametrize(
    "body",
    [
        chat({"type": "image_url", "image_url": {"url": DATA_URL}}),
        chat({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"url": "file:///x"}'}}]}]},
        chat({"type": "tool_use", "id": "t", "name": "f", "input": {"image_url": "file:///x", "url": "file:///y"}}),
        {"messages": [{"role": "assistant", "content": "x", "annotations": [{"type": "url_citation", "url_citation": {"url": "x"}}]}]},
        {"messages": "hi", "tools": [{"type": "function", "function": {"parameters": {"properties": {"image_url": {"type": "string"}}}}}]},
        {"image_data": ["/9j/4AAQSkZJRg==", "iVBORw0KGgo="]},
    ],
)
def test_what_is_no_media_by_url_is_left_alone(body: Any):
    _, fields, slots = slots_of({**body, "image_url": "so that it is looked at"})
    assert body_media.urls_to_fetch(slots, ()) == set() and (fields == {} or slots)


@pytest.mark.parametrize(
    ("url", "listed"),
    [
        ("https://images.example.com/a.png?x=1", True),
        ("http://images.example.com:8080/a.png", True),
        ("https://a.cdn.example.com/a.png", True),
        ("https://cdn.example.com/a.png", False),
        ("https://images.example.com.evil.test/a.png", False),
        ("https://images.example.com@evil.test/a.png", False),
        ("https://images.example.com\\@evil.test/a.png", False),
        ("https://evil.test/\nhttps://images.example.com/", False),
        ("file://images.example.com/etc/passwd", False),
    ],
)
def test_url_is_sent_on_only_if_its_host_is_listed_and_it_can_be_read_in_one_way(url: str, listed: bool):
    assert body_media.is_listed(url, frozenset({"images.example.com", "*.cdn.example.com"})) == listed


def test_plain_requests_pass_the_cheap_test():
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": 'Grüße: see the "url" and "image" of http://x/'}]}).encode()
    assert b"\\u00fc" in raw and not body_media.may_name_media(raw)
