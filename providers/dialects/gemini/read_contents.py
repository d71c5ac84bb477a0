"""Contents of a request as messages of the canonical chat.

Calls and results without ids get ids by their places: a result belongs to the first call of its function that has none yet.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.canonical.chat import Audio, Content, File, Image, Inline, Message, Opaque, Reasoning, Role, Text, ToolCall, ToolResult, Url
from providers.canonical.image_types import image_type
from providers.canonical.raw_json import NULL
from providers.canonical.tool_calls import read_arguments
from providers.dialects.gemini.media import is_google_url
from providers.dialects.gemini.opaque_parts import read_opaque_part
from providers.dialects.gemini.opaque_states import read_call_signature, read_signature, read_thought

_Object = dict[str, Raw]
_object = msgspec.json.Decoder(_Object)
_any = msgspec.json.Decoder()
_list = msgspec.json.Decoder(list[_Object])
_raw_list = msgspec.json.Decoder(list[Raw])
_SYSTEM = "system"
# OpenAI's names of formats, which the canonical chat has too.
_AUDIO_TYPES = {"audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
_WEB_SCHEMES = ("https://", "http://")
# Fields beside what a part holds, which say how it is to be read.
_EXTRA_FIELDS = ("videoMetadata", "mediaResolution", "partMetadata")


class LocatedMessage(Struct):
    """A message, with the index of the content and of the part that each of its parts was read from."""

    role: Role
    parts: list[Content]
    places: list[tuple[int, int]]


class _OpenCall(Struct):
    """A call that has no result yet."""

    name: str
    id: str


def read_instructions(raw: Raw) -> tuple[Message, ...]:
    """The instructions as one message, or none if they are empty."""
    parts = tuple(Text(_any.decode(each["text"])) for each in _parts(_object.decode(raw)) if each.get("text", NULL) != NULL)
    return (Message("system", parts),) if parts else ()


def read_contents(raw: Raw) -> list[LocatedMessage]:
    """The messages, with the places of their parts.

    Contents of the model that follow each other are one message: Google's SDKs keep each chunk of a stream as a content of its own.
    """
    open_calls: list[_OpenCall] = []
    messages: list[LocatedMessage] = []
    turn: _Turn | None = None
    for index, content in enumerate(_list.decode(raw)):
        role = _any.decode(content.get("role", NULL))
        raw_parts = _raw_list.decode(content["parts"]) if _has(content, "parts") else []
        if turn is None or role != "model":
            turn = _Turn("assistant" if role == "model" else "system" if role == _SYSTEM else "user", open_calls)
            messages.append(turn.message)
        turn.read(raw_parts, index)
        if role != "model":
            turn = None
    return messages


class _Turn:
    """Reads the contents of one message."""

    def __init__(self, role: Role, open_calls: list[_OpenCall]) -> None:
        self.message = LocatedMessage(role, [], [])
        self._open_calls = open_calls
        self._run_start = 0  # the first part after the last call

    def read(self, raw_parts: Sequence[Raw], content: int) -> None:
        parts, places = self.message.parts, self.message.places
        reader = _PartsReader(content, self._open_calls)
        for index, raw in enumerate(raw_parts):
            for part, carried in reader.read_part(raw, index):
                self._put_before(carried, (content, index))
                joined = _join(parts[-1], part, across=places[-1][0] != content) if parts and self.message.role == "assistant" else None
                if joined is not None:
                    parts[-1] = joined
                    continue
                parts.append(part)
                places.append((content, index))
                if isinstance(part, ToolCall):
                    self._run_start = len(parts)
        if not raw_parts and not places:
            places.append((content, 0))

    def _put_before(self, carried: Sequence[Content], place: tuple[int, int]) -> None:
        """Puts what a call carries before all that was written since the last call, unless the client has sent it as well."""
        start = self._run_start
        missing = [part for part in carried if part not in self.message.parts[start:]]
        self.message.parts[start:start] = missing
        self.message.places[start:start] = [place] * len(missing)


def _join(last: Content, part: Content, *, across: bool) -> Content | None:
    """Both as one part, where they were one before a stream was cut into chunks; None: they are two.

    A signature comes behind the thought that it belongs to. `across` says that they are in contents of their own.
    """
    match last, part:
        case Reasoning(text, None), Reasoning() if text:
            return replace(part, text=text + part.text)
        case Text(), Text() if across and not last.extra and not part.extra:
            return Text(last.text + part.text)
        case _:
            return None


class _PartsReader:
    """Reads the parts of one content."""

    def __init__(self, content: int, open_calls: list[_OpenCall]) -> None:
        self._content = content
        self._open_calls = open_calls

    def read_part(self, raw: Raw, index: int) -> Iterator[tuple[Content, Sequence[Content]]]:
        """Yields each part, with what it carries."""
        fields = {key: value for key, value in _object.decode(raw).items() if value != NULL}
        signature: str | None = _any.decode(fields["thoughtSignature"]) if "thoughtSignature" in fields else None
        if "functionCall" in fields:
            call, carried = self._read_call(_object.decode(fields["functionCall"]), signature, index)
            yield call, carried
            return
        for part in self._read_other(raw, fields, signature, index):
            yield part, ()

    def _read_other(self, raw: Raw, fields: _Object, signature: str | None, index: int) -> Iterator[Content]:
        extra = {key: fields[key] for key in _EXTRA_FIELDS if key in fields}
        if "functionResponse" in fields:
            yield self._read_result(_object.decode(fields["functionResponse"]), index)
        elif fields.get("thought") == Raw(b"true") and ("text" in fields or signature):
            yield read_thought(_any.decode(fields["text"]) if "text" in fields else "", signature)
        elif "text" in fields or signature:
            text = _any.decode(fields["text"]) if "text" in fields else ""
            if signature:
                yield Reasoning("", read_signature(signature))
            if text or not signature:
                yield Text(text, extra=extra)
        elif "inlineData" in fields or "fileData" in fields:
            yield _read_file(raw, fields, extra)
        else:
            yield read_opaque_part(_object.decode(raw))

    def _read_call(self, fields: _Object, signature: str | None, index: int) -> tuple[ToolCall, Sequence[Content]]:
        name: str = _any.decode(fields["name"])
        id = _any.decode(fields.get("id", NULL)) or f"call_{self._content}_{index}"
        self._open_calls.append(_OpenCall(name, id))
        carried = read_call_signature(signature)
        return ToolCall(id, name, read_arguments(fields.get("args", NULL)), opaque_state=carried.state), carried.parts

    def _read_result(self, fields: _Object, index: int) -> ToolResult:
        name: str = _any.decode(fields["name"])
        given: str | None = _any.decode(fields.get("id", NULL))
        id = self._take_call(name, given or None) or f"call_{self._content}_{index}"
        text, is_error = _read_response(fields.get("response", NULL))
        files = [_read_file(each, _object.decode(each), {}) for each in _raw_list.decode(fields["parts"])] if _has(fields, "parts") else []
        parts = ([Text(text)] if text or not files else []) + files
        return ToolResult(id, tuple(part for part in parts if isinstance(part, Text | Image | File | Opaque)), is_error or None)

    def _take_call(self, name: str, id: str | None) -> str | None:
        """The id of the call that a result belongs to. One with an id that no call has keeps it."""
        for position, call in enumerate(self._open_calls):
            if call.id == id if id is not None else call.name == name:
                del self._open_calls[position]
                return call.id
        return id


def _has(fields: _Object, key: str) -> bool:
    return fields.get(key, NULL) != NULL


def _parts(content: _Object) -> list[_Object]:
    return _list.decode(content["parts"]) if _has(content, "parts") else []


def _read_response(raw: Raw) -> tuple[str, bool]:
    """The result as text, and whether it is an error. Google's keys for them are `output` and `error`; its SDK writes `result`."""
    if raw == NULL:
        return "", False
    fields = _object.decode(raw)
    if len(fields) == 1:
        key, value = next(iter(fields.items()))
        if key in ("output", "result", "error"):
            decoded: Any = _any.decode(value) if bytes(memoryview(value)[:1]) == b'"' else None
            return decoded if isinstance(decoded, str) else bytes(value).decode(), key == "error"
    return bytes(raw).decode() if fields else "", False


def _read_file(raw: Raw, fields: _Object, extra: _Object) -> Image | File | Audio | Opaque:
    """The file. Video, and what only Google can read, stays as it is."""
    if _has(fields, "inlineData"):
        blob = _object.decode(fields["inlineData"])
        media_type, data = _any.decode(blob["mimeType"]).lower(), _any.decode(blob["data"])
        source: Inline | Url = Inline(media_type, _standard_base64(data))
    else:
        blob = _object.decode(fields["fileData"])
        url: str = _any.decode(blob["fileUri"])
        media_type = (_any.decode(blob.get("mimeType", NULL)) or "").lower()
        if is_google_url(url) or not url.startswith(_WEB_SCHEMES) or not media_type:
            return read_opaque_part(_object.decode(raw))
        source = Url(url)
    name: str | None = _any.decode(blob.get("displayName", NULL))
    if media_type.startswith("image/"):
        if isinstance(source, Inline):
            source = Inline(image_type(media_type, source.data), source.data)
        return Image(source, extra=extra)
    if media_type.startswith("audio/"):
        if isinstance(source, Inline):
            source = Inline(_AUDIO_TYPES.get(media_type, media_type), source.data)
        return Audio(source, extra=extra)
    if media_type.startswith("video/"):
        return read_opaque_part(_object.decode(raw))
    return File(source, name, extra)


def _standard_base64(data: str) -> str:
    """The data in the usual alphabet: Google's SDK for Python writes that for URLs."""
    return data.replace("-", "+").replace("_", "/") if "-" in data or "_" in data else data
