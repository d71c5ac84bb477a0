"""Log probabilities of a completion, which are told in columns, as the entries of a chat's, and back."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS


class _Columns(Struct):
    """`token_logprobs` has none for the first token of a prompt that is echoed."""

    tokens: list[str] = []
    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] | None = None


class _Top(Struct):
    token: str
    logprob: float


class _Entry(Struct):
    token: str
    logprob: float | None = None
    top_logprobs: list[_Top] = []


_columns_decoder = msgspec.json.Decoder(_Columns)
_entry_decoder = msgspec.json.Decoder(_Entry)


def read_logprobs(raw: Raw) -> tuple[Raw, ...] | None:
    """None if they are not told, or in another way: that must not cost a good answer."""
    try:
        columns = _columns_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    tops = columns.top_logprobs or [None] * len(columns.tokens)
    return tuple(
        Raw(msgspec.json.encode(_Entry(token, logprob, [_Top(*each) for each in (top or {}).items()])))
        for token, logprob, top in zip(columns.tokens, columns.token_logprobs, tops, strict=False)
    )


def write_logprobs(entries: Sequence[Raw], offset: int) -> dict[str, Any]:
    """`offset`: the characters of text before the first of them."""
    decoded = [_entry_decoder.decode(entry) for entry in entries]
    offsets: list[int] = []
    for entry in decoded:
        offsets.append(offset)
        offset += len(entry.token)
    return {
        "tokens": [entry.token for entry in decoded],
        "token_logprobs": [entry.logprob for entry in decoded],
        "top_logprobs": [{top.token: top.logprob for top in entry.top_logprobs} for entry in decoded],
        "text_offset": offsets,
    }
