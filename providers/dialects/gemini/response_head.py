"""The fields of every response, and of every chunk of a stream, beside its candidates; and whether the caller wants thoughts."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialect import ResponseMeta


class _ThinkingConfig(Struct):
    includeThoughts: bool | None = None


class _Config(Struct):
    thinkingConfig: _ThinkingConfig | None = None


_config_decoder = msgspec.json.Decoder(_Config)


def response_tail(meta: ResponseMeta) -> dict[str, Any]:
    """The fields after the candidates and the usage."""
    return {"modelVersion": meta.model, "responseId": meta.id}


def includes_thoughts(request_body: Mapping[str, Any]) -> bool:
    """Whether the caller has asked for thoughts: without that Gemini sends none."""
    raw = as_raw(request_body.get("generationConfig", NULL))
    if raw == NULL:
        return False
    try:
        config = _config_decoder.decode(raw)
    except DECODE_ERRORS:
        return False
    return config.thinkingConfig is not None and bool(config.thinkingConfig.includeThoughts)
