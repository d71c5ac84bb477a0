"""The requests whose calls are counted, by what they are."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

_MESSAGES = (
    {"role": "system", "content": "You answer in one sentence, in plain words."},
    {"role": "user", "content": "What does a narthex have to do with a church, and why is it at the west end?"},
)
_TURN = "Read the next file, look for whoever calls this function, and say in a sentence what would break if it went. "
_AGENT_TURNS, _AGENT_TOOLS = 40, 10


class CountedRequest(Struct, frozen=True):
    """A request to a route of callers."""

    path: str
    body: bytes

    def streamed(self) -> "CountedRequest":
        """Returns the same request for a stream that ends with its usage."""
        return CountedRequest(self.path, self.body[:-1] + b',"stream":true,"stream_options":{"include_usage":true}}')


def chat(model: str) -> CountedRequest:
    return _request("/v1/chat/completions", {"model": model, "messages": _MESSAGES, "temperature": 0.7, "max_tokens": 128})


def function(name: str) -> CountedRequest:
    """A request of a function, whose template has the system message."""
    return _request("/v1/chat/completions", {"model": name, "messages": _MESSAGES[1:], "max_tokens": 128})


def messages(model: str) -> CountedRequest:
    system, user = _MESSAGES
    return _request("/v1/messages", {"model": model, "system": system["content"], "messages": [user], "max_tokens": 128})


def response(model: str, *, store: bool) -> CountedRequest:
    system, user = _MESSAGES
    return _request("/v1/responses", {"model": model, "instructions": system["content"], "input": user["content"], "store": store})


def agent_chat(model: str) -> CountedRequest:
    """A turn of an agent: 40 messages with calls of tools and their results, ten tools, 22 kB; streamed."""
    history: list[Mapping[str, Any]] = [_MESSAGES[0]]
    for turn in range(_AGENT_TURNS // 4):
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "tool_1", "arguments": '{"path": "app/main.py"}'}}
        history += [
            {"role": "user", "content": _TURN * 2},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": _TURN * 6},
            {"role": "assistant", "content": _TURN * 3},
        ]
    tools = [{"type": "function", "function": {**tool, "parameters": _PARAMETERS}} for tool in _tools()]
    body = {"model": model, "messages": [*history, _MESSAGES[1]], "tools": tools, "max_tokens": 1024}
    return _request("/v1/chat/completions", body).streamed()


def agent_messages(model: str) -> CountedRequest:
    """The same turn of an agent in Anthropic's Messages; streamed."""
    history: list[Mapping[str, Any]] = []
    for turn in range(_AGENT_TURNS // 4):
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "tool_1", "input": {"path": "app/main.py"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": _TURN * 6}
        history += [
            {"role": "user", "content": _TURN * 2},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "content": _TURN * 3},
        ]
    tools = [{**tool, "input_schema": _PARAMETERS} for tool in _tools()]
    body = {"model": model, "messages": [*history, _MESSAGES[1]], "tools": tools, "max_tokens": 1024, "stream": True}
    return _request("/v1/messages", body)


_PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "A path within the workspace."}, "lines": {"type": "integer"}},
    "required": ["path"],
}


def _tools() -> Sequence[Mapping[str, Any]]:
    return [{"name": f"tool_{number}", "description": _TURN * 2} for number in range(_AGENT_TOOLS)]


def _request(path: str, body: Mapping[str, Any]) -> CountedRequest:
    return CountedRequest(path, json.dumps(body, separators=(",", ":")).encode())
