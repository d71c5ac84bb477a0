"""Log probabilities: the columns of a completion as the entries of a chat, and back."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS


class _Columns(Struct):
    """The columns. `token_logprobs` is null for the first token of an echoed prompt."""

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
    """The entries. None if there are none, or if they have another form: that must not cost a good response."""
    try:
        columns = _columns_decoder.decode(raw)
    except DECODE_ERRORS:
        return None
    tops = columns.top_logprobs or [None] * len(columns.tokens)
    return tuple(
        Raw(msgspec.json.encode({**_entry(token, logprob), "top_logprobs": [_entry(*each) for each in (top or {}).items()]}))
        for token, logprob, top in zip(columns.tokens, columns.token_logprobs, tops, strict=False)
    )


def _entry(token: str, logprob: float | None) -> dict[str, Any]:
    """Official clients of chat require `bytes`, which completions do not have."""
    return {"token": token, "logprob": logprob, "bytes": None}


def write_logprobs(entries: Sequence[Raw], offset: int) -> dict[str, Any]:
    """The columns. Before the first token there are `offset` characters of text."""
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
