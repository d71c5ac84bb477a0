"""Tokens of a request to Claude, counted by Bedrock: it wants the whole body that InvokeModel would be sent, in base64.

Source: the service model of Bedrock Runtime in botocore 1.44 (CountTokens); https://docs.aws.amazon.com/bedrock/latest/userguide
/count-tokens.html; read 2026-11. No recording has one.
"""

import base64
from collections.abc import Callable

import httpx
import msgspec
from msgspec import Struct

from providers.dialect import Stamp
from providers.dialects.bedrock_converse.families import read_family
from providers.errors import Garbled, NotOffered
from providers.foreign import Foreign
from providers.wire import UNREADABLE, Body

_OURS = frozenset({"model", "stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})
_VERSION = "bedrock-2023-05-31"


class _Thinking(Struct):
    budget_tokens: int = 0


class _Told(Struct):
    inputTokens: int


_thinking = msgspec.json.Decoder(_Thinking | None)
_told = msgspec.json.Decoder(_Told)


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    if not read_family(model).is_claude:
        raise NotOffered(f"Bedrock counts tokens of requests to Claude, and {model:.100} is not known to be one.", param="model")
    inner = Body({key: value for key, value in body.items() if key not in _OURS})
    inner["anthropic_version"] = _VERSION
    # InvokeModel demands one, larger than what may be reasoned with; it takes no part in the count.
    inner["max_tokens"] = _budget(body) + 1024
    return Body({"input": {"invokeModel": {"body": base64.b64encode(inner.write()).decode()}}}), []


def _budget(body: Body) -> int:
    if not body.said("thinking"):
        return 0
    try:
        said = _thinking.decode(body["thinking"])
    except UNREADABLE:
        return 0
    return 0 if said is None else said.budget_tokens


def _read(raw: bytes, headers: httpx.Headers, stamp: Stamp) -> bytes:
    try:
        return msgspec.json.encode({"input_tokens": _told.decode(raw).inputTokens})
    except UNREADABLE as fault:
        raise Garbled(f"Bedrock's answer is not a count of tokens: {fault}.") from None


BEDROCK_COUNTING = Foreign("bedrock_count_tokens", _write, _read)
