"""Log probabilities of generate as OpenAI's."""

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from providers.dialects.tgi_generate.response_schema import Token


def read_logprobs(tokens: Sequence[Token], alternatives_by_token: Sequence[Sequence[Token]]) -> tuple[Raw, ...]:
    """The entries of OpenAI's `content` list, without those of special tokens, which are not text."""
    entries: list[Raw] = []
    for index, token in enumerate(tokens):
        logprob = _logprob(token)
        if logprob is None or token.special or token.special_token:
            continue
        alternatives = alternatives_by_token[index] if index < len(alternatives_by_token) else ()
        tops = [{"token": other.text or "", "logprob": _logprob(other), "bytes": None} for other in alternatives]
        entry = {"token": token.text or "", "logprob": logprob, "bytes": None, "top_logprobs": tops}
        entries.append(Raw(msgspec.json.encode(entry)))
    return tuple(entries)


def _logprob(token: Token) -> float | None:
    return token.logprob if token.logprob is not None else token.log_prob
