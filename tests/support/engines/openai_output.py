"""The output of a scripted engine in OpenAI's dialect: one body, or the chunks of a stream."""

from typing import Any

from msgspec import Struct

from tests.support.scripted_engine import chunk, completion


class ModelOutput(Struct):
    """The output that the model writes next."""

    text: str = "Hello."
    reasoning: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = "stop"
    logprobs: Any = None
    finish_fields: dict[str, Any] = {}  # what the engine sends beside the finish reason

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls and self.finish == "stop" else self.finish


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def completion_body(output: ModelOutput, usage: dict[str, Any] = USAGE) -> dict[str, Any]:
    message: dict[str, Any] = {"reasoning_content": output.reasoning or None}
    if output.calls:
        message["tool_calls"] = [
            {"id": f"call_{index}", "index": index, "type": "function", "function": {"name": name, "arguments": arguments}}
            for index, (name, arguments) in enumerate(output.calls)
        ]
    body = completion(None if output.calls else output.text, **message)
    body["choices"][0] |= {"finish_reason": output.finish_reason, "logprobs": output.logprobs, **output.finish_fields}
    return {**body, "usage": usage}


def stream_chunks(output: ModelOutput, *, include_usage: bool, usage: dict[str, Any] = USAGE) -> list[dict[str, Any]]:
    """The name and id of a call first, then fragments of its arguments; usage, if requested, in a chunk of its own."""
    chunks = [chunk({"role": "assistant", "content": ""})]
    chunks += [chunk({"reasoning_content": piece}) for piece in _halves(output.reasoning)]
    for index, (name, arguments) in enumerate(output.calls):
        call_start = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": ""}}
        chunks.append(chunk({"tool_calls": [call_start]}))
        chunks += [chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}) for piece in _halves(arguments)]
    if not output.calls:
        chunks += [chunk({"content": piece}) for piece in _halves(output.text)]
    if output.logprobs is not None:
        chunks[-1]["choices"][0]["logprobs"] = output.logprobs
    last = chunk({}, output.finish_reason)
    last["choices"][0] |= output.finish_fields
    chunks.append(last)
    return [*chunks, chunk(None, usage=usage)] if include_usage else chunks


def _halves(text: str) -> list[str]:
    return [piece for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]
