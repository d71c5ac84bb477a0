"""Google's embeddings and counts, which are served as OpenAI's embeddings and Anthropic's count of tokens, with Google's errors.

Whichever host answers, what is recorded is in those APIs; the answer of the route is Google's.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from providers.canonical.errors import InvalidRequest, NarthexError
from providers.canonical.parse_body import parse_body
from providers.canonical.raw_json import NULL, Body
from providers.dialects.anthropic_count_tokens import AnthropicCountTokens
from providers.dialects.anthropic_messages import AnthropicMessages
from providers.dialects.catalogue import CHAT_DIALECTS
from providers.dialects.gemini import Gemini
from providers.dialects.openai_embeddings import OpenAIEmbeddings
from providers.drop_policy import DropPolicy

_GEMINI = CHAT_DIALECTS[Gemini.name]
_MESSAGES = CHAT_DIALECTS[AnthropicMessages.name]
_SETTINGS = ("taskType", "title", "outputDimensionality", "autoTruncate")


class GoogleEmbeddings(OpenAIEmbeddings):
    """OpenAI's embeddings for callers of Google's API."""

    def write_error(self, error: NarthexError) -> bytes:
        return _GEMINI.write_error(error)


class GoogleCountTokens(AnthropicCountTokens):
    """Anthropic's count of tokens for callers of Google's API."""

    def write_error(self, error: NarthexError) -> bytes:
        return _GEMINI.write_error(error)


class TextPart(Struct):
    text: str | None = None


class EmbeddedContent(Struct):
    """The content that is embedded. The texts of its parts count as one."""

    parts: Annotated[list[TextPart], Meta(min_length=1)]


class EmbedRequest(Struct):
    """A request to embed one content. Its settings may also stand in `embedContentConfig`."""

    content: EmbeddedContent
    model: str | None = None
    taskType: str | None = None
    title: str | None = None
    outputDimensionality: Annotated[int, Meta(ge=1)] | None = None
    autoTruncate: bool | None = None


class BatchEmbedRequest(Struct):
    requests: Annotated[list[EmbedRequest], Meta(min_length=1)]


class CountRequest(Struct):
    """A request to count tokens: contents alone, or a whole request for a response."""

    contents: list[Raw] | None = None
    generateContentRequest: dict[str, Raw] | None = None


_embed_decoder = msgspec.json.Decoder(EmbedRequest)
_batch_decoder = msgspec.json.Decoder(BatchEmbedRequest)
_count_decoder = msgspec.json.Decoder(CountRequest)


def write_embeddings_body(raw: bytes, model: str, *, is_batch: bool) -> bytes:
    """OpenAI's request for these embeddings. Raises InvalidRequest."""
    if is_batch:
        requests = parse_body(raw, _batch_decoder)[0].requests
    else:
        requests = [parse_body(raw, _embed_decoder)[0]]
    first = requests[0]
    body: dict[str, Any] = {"model": model, "input": [], "encoding_format": "float"}
    for index, request in enumerate(requests):
        path = f"requests[{index}]." if is_batch else ""
        for field in _SETTINGS:
            if getattr(request, field) != getattr(first, field):
                raise InvalidRequest(f"`{path}{field}` must be the same in all requests of a batch.", param=f"{path}{field}")
        body["input"].append(_text_of(request.content, f"{path}content"))
    if first.outputDimensionality is not None:
        body["dimensions"] = first.outputDimensionality
    for field in ("taskType", "title"):
        if getattr(first, field) is not None:
            body[field] = getattr(first, field)
    return msgspec.json.encode(body)


def _text_of(content: EmbeddedContent, path: str) -> str:
    texts: list[str] = []
    for index, part in enumerate(content.parts):
        if part.text is None:
            raise InvalidRequest(f"`{path}.parts[{index}]` has no text: only texts are embedded.", param=f"{path}.parts[{index}]")
        texts.append(part.text)
    return "\n".join(texts)


class _Vector(Struct):
    embedding: Raw = NULL


class _Usage(Struct):
    prompt_tokens: int | None = None


class _Vectors(Struct):
    data: list[_Vector]
    usage: _Usage | None = None


_vectors_decoder = msgspec.json.Decoder(_Vectors)


def read_embeddings(raw: bytes, *, is_batch: bool) -> bytes:
    """Google's answer for OpenAI's."""
    vectors = _vectors_decoder.decode(raw)
    values = [{"values": each.embedding} for each in vectors.data]
    answer: dict[str, Any] = {"embeddings": values} if is_batch else {"embedding": values[0]}
    if vectors.usage is not None and vectors.usage.prompt_tokens is not None:
        answer["usageMetadata"] = {"promptTokenCount": vectors.usage.prompt_tokens}
    return msgspec.json.encode(answer)


def write_count_body(raw: bytes, model: str) -> bytes:
    """Anthropic's request to count these contents. What that API has no field for does not count. Raises InvalidRequest."""
    request, body = parse_body(raw, _count_decoder)
    if request.generateContentRequest is not None:
        if request.contents:
            raise InvalidRequest("`contents` and `generateContentRequest` are both set: send one of them.", param="contents")
        body = Body(request.generateContentRequest)
    counted = Body({key: value for key, value in body.items() if key in ("contents", "systemInstruction", "tools", "system_instruction")})
    inbound = _GEMINI.parse_request(Body({**counted, "model": model}).write())
    policy = DropPolicy(lambda _: True, _GEMINI.field_names, "counting tokens")
    written = _MESSAGES.write_request(_GEMINI.read_request(inbound.body), policy)
    for field in ("max_tokens", "stream"):
        written.pop(field, None)
    return Body({**written, "model": model}).write()


class _Count(Struct):
    input_tokens: int = 0


_anthropic_count_decoder = msgspec.json.Decoder(_Count)


def read_count(raw: bytes) -> bytes:
    """Google's answer for Anthropic's."""
    return msgspec.json.encode({"totalTokens": _anthropic_count_decoder.decode(raw).input_tokens})
