"""Chat responses on the wire: OpenAI's chat.completion, and its chunks."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from app.sandbox.choices import Choice, Step, TokenLogprob
from app.sandbox.response_head import FINGERPRINT, ResponseHead


def write_response(head: ResponseHead, choices: Sequence[Choice], usage: dict[str, Any] | None) -> dict[str, Any]:
    written = [
        {
            "index": index,
            "message": write_message(choice),
            "logprobs": write_logprobs(choice.steps),
            "finish_reason": choice.finish_reason,
        }
        for index, choice in enumerate(choices)
    ]
    return envelope(head, "chat.completion", written) | ({"usage": usage} if usage else {})


def write_message(choice: Choice) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    for step in choice.steps:
        if step.kind == "call":
            calls.append({"id": step.call_id, "type": "function", "function": {"name": step.text, "arguments": ""}})
        elif step.kind == "arguments":
            calls[step.call_index]["function"]["arguments"] += step.text
    message: dict[str, Any] = {"role": "assistant", "content": None if calls else choice.text("text"), "refusal": None}
    if reasoning := choice.text("reasoning"):
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message


def write_chunks(
    head: ResponseHead, choices: Sequence[Choice], usage: dict[str, Any] | None, *, includes_usage: bool
) -> Iterator[dict[str, Any]]:
    """The role first, then the steps of all choices in turn, each finish reason, and the usage in a chunk of its own if it is included."""

    def chunk(index: int, delta: dict[str, Any], logprobs: dict[str, Any] | None = None, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return envelope(head, "chat.completion.chunk", [choice]) | ({"usage": None} if includes_usage else {})

    for index, choice in enumerate(choices):
        has_calls = any(step.kind == "call" for step in choice.steps)
        yield chunk(index, {"role": "assistant", "content": None if has_calls else "", "refusal": None})
    for row in zip_longest(*(choice.steps for choice in choices)):
        for index, step in enumerate(row):
            if step is not None:
                yield chunk(index, write_delta(step), write_logprobs((step,)))
    for index, choice in enumerate(choices):
        yield chunk(index, {}, reason=choice.finish_reason)
    if includes_usage and usage:
        yield envelope(head, "chat.completion.chunk", []) | {"usage": usage}


def write_delta(step: Step) -> dict[str, Any]:
    match step.kind:
        case "reasoning":
            return {"reasoning_content": step.text}
        case "text":
            return {"content": step.text}
        case "call":
            function = {"name": step.text, "arguments": ""}
            return {"tool_calls": [{"index": step.call_index, "id": step.call_id, "type": "function", "function": function}]}
        case "arguments":
            return {"tool_calls": [{"index": step.call_index, "function": {"arguments": step.text}}]}


def write_logprobs(steps: Iterable[Step]) -> dict[str, Any] | None:
    content = [write_token_logprob(step.logprob) for step in steps if step.logprob]
    return {"content": content, "refusal": None} if content else None


def write_token_logprob(token_logprob: TokenLogprob) -> dict[str, Any]:
    return write_candidate(token_logprob.token, token_logprob.logprob) | {
        "top_logprobs": [write_candidate(*each) for each in token_logprob.top]
    }


def write_candidate(token: str, logprob: float) -> dict[str, Any]:
    raw = bytes.fromhex(token.removeprefix("bytes:\\x")) if token.startswith("bytes:\\x") else token.encode()
    return {"token": token, "logprob": logprob, "bytes": list(raw)}


def envelope(head: ResponseHead, kind: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": head.id,
        "object": kind,
        "created": head.created,
        "model": head.model,
        "service_tier": "default",
        "system_fingerprint": FINGERPRINT,
        "choices": choices,
    }
