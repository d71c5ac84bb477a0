"""What a model makes of texts without writing any: /pooling and /classify in vLLM's shape, and SGLang's /encode in its own.

Sources: vLLM 0.33 entrypoints/pooling; LMDeploy 0.18 serve/openai (pooling); SGLang's http_server.py (/encode, /classify) and
openai/protocol.py (ClassifyRequest); all read 2026-11.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from providers.dialect import Edited, Stamp
from providers.errors import Garbled
from providers.estimate import text_tokens
from providers.routes.replies import decoded, read_object
from providers.routes.route import Route, Shape
from providers.routes.way import Way
from providers.wire import Body


class Input(Struct):
    """The bytes that vLLM could answer with are none that a gateway can read."""

    input: Annotated[str, Meta(min_length=1)] | Annotated[list[str | int | list[int]], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Messages(Struct):
    messages: Annotated[list[Raw], Meta(min_length=1)]
    encoding_format: Literal["float", "base64"] | None = None


class Data(Struct):
    """What a plugin of vLLM's reads."""

    data: Raw


class SGLangText(Struct):
    text: str | list[str]


class SGLangIds(Struct):
    input_ids: list[int | list[int]]


_data = msgspec.json.Decoder(list[Raw])
_MARKS = ("input", "messages", "data")
_SGLANGS: Mapping[str, Shape] = {"text": msgspec.json.Decoder(SGLangText), "input_ids": msgspec.json.Decoder(SGLangIds)}


def _estimated(request: Any) -> int:
    return sum(text_tokens(len(msgspec.json.encode(field))) for field in msgspec.structs.astuple(request)[:1])


def _checked(raw: bytes, stamp: Stamp, kind: str) -> Body:
    """Raises Garbled if there is not one for each input."""
    body = read_object(raw)
    items = decoded(body, "data", _data, "results")
    wanted = inputs(Body(stamp.asked))
    if wanted is not None and len(items) != wanted:
        raise Garbled(f"The engine gave {len(items)} results for {wanted} inputs.")
    body["id"], body["object"], body["model"] = f"{kind}-{stamp.id}", "list", stamp.model
    return body


def inputs(body: Body) -> int | None:
    """How many were asked about; None: it cannot be told."""
    given = body.value("input")
    if given is None:
        return 1 if body.said("messages") else None
    return 1 if isinstance(given, str) or isinstance(given[0], int) else len(given)


class Pooling(Route):
    name: ClassVar[str] = "pooling"
    does: ClassVar[str] = "pools"
    shapes: ClassVar[Mapping[str, Shape]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        "data": msgspec.json.Decoder(Data),
    }
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": {**{mark: Way(name="/pooling") for mark in ("input", "messages")}, "data": Way(name="/pooling", own=True)},
        "openai": {mark: Way(name="/pooling") for mark in ("input", "messages")},
        # It reads an encoding and dimensions, and heeds neither.
        "lmdeploy": {
            "input": Way(name="/pooling", words={"input": "input"}, nothing={"encoding_format": "float", "add_special_tokens": True})
        },
    }

    def estimate(self, request: Any) -> int:
        return _estimated(request)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return self.edited(_checked(raw, stamp, "pool"))


class Classify(Route):
    name: ClassVar[str] = "classify"
    does: ClassVar[str] = "classifies texts"
    shapes: ClassVar[Mapping[str, Shape]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        **_SGLANGS,
    }
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "vllm": {mark: Way(name="/classify") for mark in ("input", "messages")},
        "openai": {mark: Way(name="/v1/classify") for mark in ("input", "messages")},
        "sglang": {
            "input": Way(
                name="/v1/classify",
                words={field: field for field in ("input", "rid", "priority")},
                nothing={"add_special_tokens": True},
            ),
            **{mark: Way(name="/classify", own=True, says_model=False) for mark in _SGLANGS},
        },
    }

    def estimate(self, request: Any) -> int:
        return _estimated(request)

    def edit(self, raw: bytes, stamp: Stamp) -> Edited:
        return self.edited(_checked(raw, stamp, "classify"))


class SGLangEncode(Route):
    """Embeddings as SGLang tells them; /v1/embeddings is what others have."""

    name: ClassVar[str] = "sglang_encode"
    does: ClassVar[str] = "encodes texts as SGLang's /encode does (/v1/embeddings is for all)"
    shapes: ClassVar[Mapping[str, Shape]] = _SGLANGS
    ways: ClassVar[Mapping[str, Mapping[str, Way]]] = {
        "sglang": {mark: Way(name="/encode", own=True, says_model=False) for mark in _SGLANGS}
    }

    def estimate(self, request: Any) -> int:
        return _estimated(request)
