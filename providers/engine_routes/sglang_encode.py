"""/encode: embeddings in SGLang's own shape. /v1/embeddings is the common route.

Source: SGLang's http_server.py (/encode, /classify), read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from providers.engine_routes.pooling import estimate_first_field
from providers.engine_routes.route import RequestDecoder, Route


class SGLangText(Struct):
    """SGLang's request, with texts."""

    text: str | list[str]


class SGLangIds(Struct):
    """SGLang's request, with token ids."""

    input_ids: list[int | list[int]]


SGLANG_DECODERS: Mapping[str, RequestDecoder] = {"text": msgspec.json.Decoder(SGLangText), "input_ids": msgspec.json.Decoder(SGLangIds)}


class SGLangEncode(Route):
    """/encode."""

    name: ClassVar[str] = "sglang_encode"
    purpose: ClassVar[str] = "encodes texts as SGLang's /encode does (/v1/embeddings is for all)"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = SGLANG_DECODERS

    def estimate(self, request: Any) -> int:
        return estimate_first_field(request)
