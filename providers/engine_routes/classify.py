"""/classify: classes of texts, in vLLM's shape or SGLang's own.

Sources: vLLM 0.33 entrypoints/pooling; SGLang's http_server.py (/classify) and openai/protocol.py (ClassifyRequest); read 2026-11.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from providers.dialect import OutboundResponse, ResponseMeta
from providers.engine_routes.pooling import Input, Messages, check_results, estimate_first_field
from providers.engine_routes.route import RequestDecoder, Route
from providers.engine_routes.sglang_encode import SGLANG_DECODERS


class Classify(Route):
    """/classify and /v1/classify."""

    name: ClassVar[str] = "classify"
    purpose: ClassVar[str] = "classifies texts"
    request_decoders: ClassVar[Mapping[str, RequestDecoder]] = {
        "input": msgspec.json.Decoder(Input),
        "messages": msgspec.json.Decoder(Messages),
        **SGLANG_DECODERS,
    }

    def estimate(self, request: Any) -> int:
        return estimate_first_field(request)

    def edit_response(self, raw: bytes, meta: ResponseMeta) -> OutboundResponse:
        return self.outbound_response(check_results(raw, meta, "classify"))
