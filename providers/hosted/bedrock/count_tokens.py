"""Anthropic's count_tokens by Bedrock's CountTokens, which takes the body of the InvokeModel request in base64.

Source: the service model of Bedrock Runtime in botocore 1.44 (CountTokens); https://docs.aws.amazon.com/bedrock/latest/userguide
/count-tokens.html; read 2026-11. Not recorded.
"""

import base64
from collections.abc import Callable

import httpx2
import msgspec
from msgspec import Struct

from providers.canonical.errors import InvalidUpstreamResponse, OperationNotSupported
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialect import ResponseMeta
from providers.host_operation import HostOperation
from providers.profiles.bedrock.families import find_family

_GATEWAY_FIELDS = frozenset({"model", "stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})
ANTHROPIC_VERSION = "bedrock-2023-05-31"
"""The version of Anthropic's API that Bedrock wants named in the body."""


class _Thinking(Struct):
    budget_tokens: int = 0


class _CountTokensResponse(Struct):
    inputTokens: int


_thinking_decoder = msgspec.json.Decoder(_Thinking | None)
_response_decoder = msgspec.json.Decoder(_CountTokensResponse)


def _write_count_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    if not find_family(model).is_claude:
        raise OperationNotSupported(f"Bedrock counts tokens for Claude only, not for {model:.100}.", param="model")
    invoke_body = Body({key: value for key, value in body.items() if key not in _GATEWAY_FIELDS})
    invoke_body["anthropic_version"] = ANTHROPIC_VERSION
    # InvokeModel requires max_tokens above the thinking budget; it does not change the count.
    invoke_body["max_tokens"] = _thinking_budget(body) + 1024
    return Body({"input": {"invokeModel": {"body": base64.b64encode(invoke_body.write()).decode()}}}), []


def _thinking_budget(body: Body) -> int:
    if not body.has_value("thinking"):
        return 0
    try:
        thinking = _thinking_decoder.decode(body["thinking"])
    except DECODE_ERRORS:
        return 0
    return 0 if thinking is None else thinking.budget_tokens


def _read_count(raw: bytes, headers: httpx2.Headers, meta: ResponseMeta) -> bytes:
    try:
        return msgspec.json.encode({"input_tokens": _response_decoder.decode(raw).inputTokens})
    except DECODE_ERRORS as decode_error:
        raise InvalidUpstreamResponse(f"Bedrock's response is not a token count: {decode_error}.") from None


BEDROCK_COUNT_TOKENS = HostOperation("bedrock_count_tokens", _write_count_request, _read_count)
