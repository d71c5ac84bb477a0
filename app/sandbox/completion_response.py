"""Completions on the wire: OpenAI's text_completion, and its chunks."""

from collections.abc import Iterator, Sequence
from itertools import accumulate, zip_longest
from typing import Any

from app.sandbox.choices import Choice, TokenLogprob
from app.sandbox.response_head import FINGERPRINT, ResponseHead


def write_response(head: ResponseHead, choices: Sequence[tuple[str, Choice]], usage: dict[str, Any] | None) -> dict[str, Any]:
    """Writes a completion. Each of `choices` comes with the text that is echoed before it."""
    written = [
        {
            "index": index,
            "text": echo + choice.text("text"),
            "logprobs": write_logprobs([step.logprob for step in choice.steps if step.logprob], len(echo)),
            "finish_reason": choice.finish_reason,
        }
        for index, (echo, choice) in enumerate(choices)
    ]
    return envelope(head, written) | ({"usage": usage} if usage else {})


def write_chunks(
    head: ResponseHead, choices: Sequence[tuple[str, Choice]], usage: dict[str, Any] | None, *, includes_usage: bool
) -> Iterator[dict[str, Any]]:
    def chunk(index: int, text: str, logprobs: dict[str, Any] | None = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return envelope(head, [choice]) | ({"usage": None} if includes_usage else {})

    text_offsets = [len(echo) for echo, _ in choices]
    for index, (echo, _) in enumerate(choices):
        if echo:
            yield chunk(index, echo)
    for row in zip_longest(*(choice.steps for _, choice in choices)):
        for index, step in enumerate(row):
            if step is not None:
                yield chunk(index, step.text, write_logprobs([step.logprob] if step.logprob else [], text_offsets[index]))
                text_offsets[index] += len(step.text)
    for index, (_, choice) in enumerate(choices):
        yield chunk(index, "", reason=choice.finish_reason)
    if includes_usage and usage:
        yield envelope(head, []) | {"usage": usage}


def write_logprobs(token_logprobs: Sequence[TokenLogprob], offset: int) -> dict[str, Any] | None:
    """Four parallel lists, the older form of this route."""
    if not token_logprobs:
        return None
    lengths = accumulate((len(token_logprob.token) for token_logprob in token_logprobs), initial=offset)
    return {
        "tokens": [each.token for each in token_logprobs],
        "token_logprobs": [each.logprob for each in token_logprobs],
        "top_logprobs": [dict(each.top) for each in token_logprobs],
        "text_offset": list(lengths)[:-1],
    }


def envelope(head: ResponseHead, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": head.id,
        "object": "text_completion",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
    }
