"""The judge of a replay: a function of type json that says which of two responses to a request is better, called with both orders.

Its input is {"request", "response_a", "response_b"}, three texts: the input of its user template, or without one a message of that JSON.
Its output is {"score"}: from 0 (b is better) over 0.5 (as good) to 1 (a is better).
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from app.domain.functions import FunctionConfig
from app.gateway.replay.own_request import OwnResponse
from app.gateway.response_translation.written import read_written
from app.results.statistics.paired import judge_score
from app.store.replays.replays import Judge
from providers.canonical.raw_json import DECODE_ERRORS

ROUTE, PATH = "openai_chat", "/v1/chat/completions"
_FUNCTION_PREFIX = "narthex::function_name::"
# Templates take a quarter of a MiB of input.
_MAX_INPUT_BYTES = 240 * 1024


class _Verdict(Struct):
    score: Annotated[float, Meta(ge=0, le=1)]


_decode_verdict = msgspec.json.Decoder(_Verdict).decode


class Judgement(Struct, frozen=True):
    """The judge's result for a replayed response, from both orders."""

    score: float  # of the replayed response against the original, from 0 to 1, and 0.5 where both orders disagree about the better one
    replayed_first: float  # the score of the replayed response when it came first
    replayed_last: float  # the score of the replayed response when it came last
    flipped: bool  # whether the orders disagree


class NoJudgement(Exception):
    """The judge gave no judgement. `reason` is written as items have it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def judgement_of(first: float, swapped: float) -> Judgement:
    """The judgement from both orders: `first` is what the judge says with the replayed response as a, `swapped` with the original as a."""
    last = 1 - swapped
    return Judgement(judge_score(last, first), first, last, (first - 0.5) * (last - 0.5) < 0)


class JudgedPair(Struct, frozen=True):
    """Two responses to the same prompt."""

    prompt: bytes  # what both were to answer, as JSON
    original: str
    replayed: str


async def judge_pair(
    send: Callable[[bytes], Awaitable[OwnResponse]], judge: Judge, function: FunctionConfig, pair: JudgedPair
) -> Judgement:
    """Lets the model compare a pair in both orders. `send` makes a request in OpenAI's chat API. Raises NoJudgement, and what `send`
    raises.
    """
    orders = ((pair.replayed, pair.original), (pair.original, pair.replayed))
    scores = [_read_score(await send(judge_request(judge, function, pair.prompt, a, b))) for a, b in orders]
    return judgement_of(*scores)


def judge_request(judge: Judge, function: FunctionConfig, prompt: bytes, a: str, b: str) -> bytes:
    """Raises NoJudgement."""
    given = {"request": prompt.decode("utf-8", "replace"), "response_a": a, "response_b": b}
    encoded = msgspec.json.encode(given)
    if len(encoded) > _MAX_INPUT_BYTES:
        raise NoJudgement("too_long_to_judge")
    variant = function.variants.get(judge.variant or function.default or next(iter(function.variants)))
    has_template = variant is not None and variant.user_template is not None
    content: Any = [{"type": "narthex::template", "arguments": given}] if has_template else encoded.decode()
    body: dict[str, Any] = {"model": _FUNCTION_PREFIX + judge.function, "messages": [{"role": "user", "content": content}]}
    if judge.variant is not None:
        body["narthex::variant_name"] = judge.variant
    return msgspec.json.encode(body)


def _read_score(response: OwnResponse) -> float:
    written = None if response.body is None else read_written(ROUTE, response.body, streamed=False)
    if not written:
        raise NoJudgement("judge_failed")
    try:
        return _decode_verdict(written[0].text).score
    except DECODE_ERRORS:
        raise NoJudgement("judge_answered_without_score") from None
