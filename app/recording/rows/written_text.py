"""Written text: what the request and response of an inference say, in whichever API, for full-text search.

It is read by the names of fields, most of which all APIs share: messages, prompts, tool calls with their
arguments and results, reasoning and output. Definitions of tools, ids and media are not read. The newest text
comes first, so that a bound cuts off the oldest: the response, then the messages from the last one to the
first.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from app.recording.content.event_frames import DONE, is_event_stream

# Of requests, the newest text first.
_REQUEST_FIELDS = (
    *("input", "messages", "prompt", "suffix", "inputs", "query", "queries", "documents", "texts", "text", "text_1", "text_2"),
    *("data_1", "data_2", "content", "contents", "items", "instructions", "system"),
)
_RESPONSE_FIELDS = ("choices", "content", "output", "message", "response", "text", "generated_text", "outputs", "results")
# Fields of the wire formats, and what is no text.
_NO_TEXT = frozenset(
    {
        *("role", "type", "object", "model", "status", "id", "tool_call_id", "tool_use_id", "call_id", "item_id", "index", "logprobs"),
        *("finish_reason", "stop_reason", "stop_sequence", "native_finish_reason", "signature", "encrypted_content", "format", "detail"),
        *("data", "file_data", "b64_json", "media_type", "mime_type", "cache_control", "usage"),
    }
)
# Of tool calls: JSON, also within a string, all of whose values are text.
_ARGUMENTS = frozenset({"arguments", "partial_json", "input"})
_MAX_DEPTH = 40
_is_data = re.compile(r"data:[\w.+-]+/|[A-Za-z0-9+/=_-]{200}").match
_ERRORS = (msgspec.DecodeError, UnicodeError, RecursionError)

# Where a text is: positions and names of fields, the innermost last. Pieces of a text that a stream is put together from share it.
Place: TypeAlias = tuple[Any, ...]


class _Function(Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(Struct):
    index: int = 0
    function: _Function | None = None


class _Delta(Struct):
    """A delta of chats, or of Anthropic's content blocks."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    tool_calls: list[_Call] | None = None


class _Block(Struct):
    name: str | None = None
    text: str | None = None


class _Choice(Struct):
    index: int = 0
    text: str | None = None
    delta: _Delta | None = None


class _Frame(Struct):
    """The fields that frames of all APIs have in common.

    Frames that repeat the response at the stream's end have it in other fields. A `delta` that is a string is
    of the Responses API, where `type` says what it is a delta of.
    """

    type: str | None = None
    index: int | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    choices: list[_Choice] = []
    delta: _Delta | str | None = None
    content_block: _Block | None = None


_decode_frame = msgspec.json.Decoder(_Frame).decode
_NULL = msgspec.Raw(b"null")
_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read_text(request: bytes, response: bytes, max_characters: int) -> str:
    """Returns the newest `max_characters` of text. As long as the request has enough, at most half of them
    are the response's.

    A stream may be cut off anywhere. What is neither JSON nor a stream of JSON has no text.
    """
    texts = _stream_texts(response, max_characters) if is_event_stream(response) else _response_texts(response)
    from_response = _collect(texts, max_characters)
    from_request = _collect(_request_texts(request), max_characters - min(len(from_response), max_characters // 2))
    return f"{from_response[: max_characters - len(from_request)]}\n{from_request}"


def _collect(texts: Iterator[str], max_characters: int) -> str:
    collected: list[str] = []
    left = max_characters
    try:
        for text in texts:
            if text and not _is_data(text):
                collected.append(text[:left])
                left -= len(text) + 1
            if left <= 0:
                break
    except _ERRORS:
        pass  # what came before it counts
    return "\n".join(collected)[:max_characters]


def _request_texts(body: bytes) -> Iterator[str]:
    fields = _decode_object(body)
    for name in _REQUEST_FIELDS:
        raw = fields.get(name, _NULL)
        if bytes(memoryview(raw)[:1]) == b"[":
            for item in reversed(_decode_list(raw)):  # of a long conversation only the end is decoded further
                yield from _texts(_decode(item))
        else:
            yield from _texts(_decode(raw))


def _response_texts(body: bytes) -> Iterator[str]:
    fields = _decode_object(body)
    for name in _RESPONSE_FIELDS:
        yield from _texts(_decode(fields.get(name, _NULL)))


def _texts(document: Any) -> Iterator[str]:
    for place, text in _placed_texts(document, (), 0):
        yield from _texts_of_arguments(text, 0) if place and place[-1] in _ARGUMENTS else (text,)


def _stream_texts(body: bytes, max_characters: int) -> Iterator[str]:
    """Yields each text once it is put together from its pieces: words are split across frames."""
    pieces: dict[Place, list[str]] = {}
    count = 0
    for line in body.splitlines():
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if not data or data == DONE:
            continue
        for place, piece in _frame_texts(data):
            pieces.setdefault(place, []).append(piece)
            count += len(piece)
        if count > max_characters:
            break
    for place, parts in pieces.items():
        text = "".join(parts)
        # Of the Responses API, the type of the frame says that they are arguments.
        is_arguments = place[-1] in _ARGUMENTS or (isinstance(place[0], str) and "arguments" in place[0])
        yield from _texts_of_arguments(text, 0) if is_arguments else (text,)


def _frame_texts(data: bytes) -> list[tuple[Place, str]]:
    try:
        frame = _decode_frame(data)
    except msgspec.ValidationError:
        return _unusual_frame_texts(data)
    except _ERRORS:
        return []
    place = (frame.type, frame.index, frame.output_index, frame.content_index, frame.summary_index)
    found = _delta_texts(place, frame.delta)
    if frame.content_block is not None:
        found += _fields((*place, "block"), frame.content_block)
    for choice in frame.choices:
        if choice.text:
            found.append(((choice.index, "text"), choice.text))
        found += _delta_texts((choice.index,), choice.delta)
    return found


def _delta_texts(place: Place, delta: "_Delta | str | None") -> list[tuple[Place, str]]:
    match delta:
        case None:
            return []
        case str():
            return [((*place, "delta"), delta)]
        case _:
            found = _fields(place, delta)
            for call in delta.tool_calls or ():
                if call.function is not None:
                    found += _fields((*place, "call", call.index), call.function)
            return found


def _fields(place: Place, struct: Struct) -> list[tuple[Place, str]]:
    names = struct.__struct_fields__
    return [((*place, name), value) for name in names if (value := getattr(struct, name)) and type(value) is str]


def _unusual_frame_texts(data: bytes) -> list[tuple[Place, str]]:
    """Returns the texts of unusual frames, such as those of hosts whose content is a list of parts."""
    try:
        frame = _decode_object(data)
        return [placed for name in ("choices", "delta") for placed in _placed_texts(_decode(frame.get(name, _NULL)), (None, name), 0)]
    except _ERRORS:
        return []


def _placed_texts(value: Any, place: Place, depth: int) -> Iterator[tuple[Place, str]]:
    match value:
        case str():
            yield place, value
        case list() if depth < _MAX_DEPTH:
            for each in cast("list[Any]", value):
                yield from _placed_texts(each, place, depth + 1)
        case dict() if depth < _MAX_DEPTH:
            fields = cast("dict[str, Any]", value)
            index = fields.get("index")
            inner = (*place, index) if type(index) is int else place
            for key, each in fields.items():
                if key in _ARGUMENTS and not isinstance(each, str):
                    for text in _argument_texts(each, depth + 1):
                        yield (*inner, ""), text
                elif key not in _NO_TEXT:
                    yield from _placed_texts(each, (*inner, key), depth + 1)
        case _:
            pass


def _texts_of_arguments(text: str, depth: int) -> Iterator[str]:
    """Yields the texts in arguments that are a string.

    They are JSON unless they are cut off, or belong to a tool with an input of its own format.
    """
    try:
        value = _decode(text)
    except _ERRORS:
        value = text
    yield from _argument_texts(value, depth)


def _argument_texts(value: Any, depth: int) -> Iterator[str]:
    match value:
        case str():
            yield value
        case bool() | None:
            pass
        case int() | float():
            yield str(value)
        case list() if depth < _MAX_DEPTH:
            for each in cast("list[Any]", value):
                yield from _argument_texts(each, depth + 1)
        case dict() if depth < _MAX_DEPTH:
            for each in cast("dict[str, Any]", value).values():
                yield from _argument_texts(each, depth + 1)
        case _:
            pass
