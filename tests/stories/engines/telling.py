"""What a scripted engine of OpenAI's dialect tells: an answer as a whole, or in frames."""

from typing import Any

from msgspec import Struct

from tests.stories.scripted import chunk, completion


class Saying(Struct):
    """What the model says next. `ending`: fields beside the finish reason that the engine tells."""

    text: str = "Hello."
    thoughts: str = ""
    calls: tuple[tuple[str, str], ...] = ()
    finish: str = "stop"
    logprobs: Any = None
    ending: dict[str, Any] = {}

    @property
    def reason(self) -> str:
        return "tool_calls" if self.calls and self.finish == "stop" else self.finish


USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def whole(saying: Saying, usage: dict[str, Any] = USAGE) -> dict[str, Any]:
    message: dict[str, Any] = {"reasoning_content": saying.thoughts or None}
    if saying.calls:
        message["tool_calls"] = [
            {"id": f"call_{at}", "index": at, "type": "function", "function": {"name": name, "arguments": arguments}}
            for at, (name, arguments) in enumerate(saying.calls)
        ]
    told = completion(None if saying.calls else saying.text, **message)
    told["choices"][0] |= {"finish_reason": saying.reason, "logprobs": saying.logprobs, **saying.ending}
    return {**told, "usage": usage}


def frames(saying: Saying, *, tells_usage: bool, usage: dict[str, Any] = USAGE) -> list[dict[str, Any]]:
    """A name and an id first, then fragments of arguments; usage in a chunk of its own, if it was asked for."""
    told = [chunk({"role": "assistant", "content": ""})]
    told += [chunk({"reasoning_content": piece}) for piece in _pieces(saying.thoughts)]
    for at, (name, arguments) in enumerate(saying.calls):
        begun = {"index": at, "id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": ""}}
        told.append(chunk({"tool_calls": [begun]}))
        told += [chunk({"tool_calls": [{"index": at, "function": {"arguments": piece}}]}) for piece in _pieces(arguments)]
    if not saying.calls:
        told += [chunk({"content": piece}) for piece in _pieces(saying.text)]
    if saying.logprobs is not None:
        told[-1]["choices"][0]["logprobs"] = saying.logprobs
    last = chunk({}, saying.reason)
    last["choices"][0] |= saying.ending
    told.append(last)
    return [*told, chunk(None, usage=usage)] if tells_usage else told


def _pieces(text: str) -> list[str]:
    return [piece for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]
