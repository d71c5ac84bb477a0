"""Ollama as a scripted engine: 0.33's own chat, in NDJSON, with what it ignores, refuses, and cuts off in silence.

Sources: /reference/engines.md; ollama/ollama, api/types.go and server/routes.go, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.stories.engines.telling import Saying
from tests.stories.scripted import Asked, ScriptedEngine, completion

KNOWN = frozenset({"model", "messages", "stream", "format", "options", "keep_alive", "tools", "think", "truncate", "shift"}) | {
    *("logprobs", "top_logprobs"),
}
OPTIONS = frozenset(
    {
        *("num_ctx", "num_predict", "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n"),
        *("presence_penalty", "frequency_penalty", "seed", "stop", "num_keep"),
    }
)
MESSAGE = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"})
# So many tokens of four bytes are its context, unless num_ctx says otherwise.
CONTEXT = 4096
_NUMBER = {"created_at": "2026-09-21T14:13:20.123456789Z"}


class ScriptedOllama:
    """`ignored`: fields that came and that it has no use for. `cached`: the prompt is, all of it. `dies`: midway. `slow`: it never ends."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.saying = Saying()
        self.busy = self.cached = self.dies = self.slow = False
        self.bodies: list[dict[str, Any]] = []
        self.ignored: set[str] = set()
        self.left = asyncio.Event()

    async def answer(self, asked: Asked) -> None:
        match asked.path:
            case "/api/chat":
                await self._chat(asked)
            case "/v1/completions":
                self.bodies.append(asked.body)
                told = completion()
                told["choices"] = [{"index": 0, "text": self.saying.text, "finish_reason": "stop", "logprobs": None}]
                await asked.answer(200, json.dumps({**told, "object": "text_completion"}).encode())
            case "/v1/embeddings":
                self.bodies.append(asked.body)
                vectors = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
                told = {"object": "list", "data": vectors, "model": "engine-model", "usage": {"prompt_tokens": 2, "total_tokens": 2}}
                await asked.answer(200, json.dumps(told).encode())
            case _:
                await asked.answer(404, b"404 page not found", "content-type: text/plain\r\n")

    async def _chat(self, asked: Asked) -> None:
        body = asked.body
        self.bodies.append(body)
        self.ignored |= (body.keys() - KNOWN) | (body.get("options", {}).keys() - OPTIONS)
        self.ignored |= {key for message in body["messages"] for key in message.keys() - MESSAGE}
        fault = _fault(body)
        if self.busy:
            await _error(asked, 503, "server busy, please try again.  maximum pending requests exceeded")
        elif body["model"] != "engine-model":
            await _error(asked, 404, f"model '{body['model']}' not found")
        elif fault is not None:
            await _error(asked, 400, fault)
        elif body.get("stream", True):
            await self._stream(asked)
        else:
            said = self._said()
            await asked.answer(200, json.dumps({**said, **self._end()}).encode(), "content-type: application/json; charset=utf-8\r\n")

    async def _stream(self, asked: Asked) -> None:
        asked.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n")
        for line in self._lines():
            asked.piece(json.dumps(line).encode() + b"\n")
            await asked.writer.drain()
            if self.slow:
                await asyncio.wait_for(asked.left.wait(), 5)
                self.left.set()
                return
        asked.piece(json.dumps({"error": "llama runner process has terminated"} if self.dies else self._end()).encode() + b"\n")
        asked.end_stream()

    def _lines(self) -> list[dict[str, Any]]:
        """Thinking and text in pieces, and each call whole, in a line of its own."""
        saying = self.saying
        told = [{"thinking": piece} for piece in _halves(saying.thoughts)]
        told += [{"content": piece} for piece in ([] if saying.calls else _halves(saying.text))]
        lines = [_line(message) for message in told]
        return lines + [_line({"tool_calls": [_call(at, *call)]}) for at, call in enumerate(saying.calls)]

    def _said(self) -> dict[str, Any]:
        saying = self.saying
        message: dict[str, Any] = {"content": "" if saying.calls else saying.text}
        if saying.thoughts:
            message["thinking"] = saying.thoughts
        if saying.calls:
            message["tool_calls"] = [_call(at, *call) for at, call in enumerate(saying.calls)]
        return _line(message)

    def _end(self) -> dict[str, Any]:
        counts = {"eval_count": 2} if self.cached else {"prompt_eval_count": 3, "eval_count": 2}
        return {"model": "engine-model", **_NUMBER, "done": True, "done_reason": self.saying.finish, "total_duration": 5, **counts}


def _fault(body: dict[str, Any]) -> str | None:
    for message in body["messages"]:
        if any(not isinstance(call["function"]["arguments"], dict) for call in message.get("tool_calls", ())):
            return (
                "json: cannot unmarshal string into Go struct field ChatRequest.messages.tool_calls of type api.ToolCallFunctionArguments"
            )
        if not isinstance(message["content"], str):
            return "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
    if "format" in body and body["format"] != "json" and not isinstance(body["format"], dict):
        return f'invalid format: {json.dumps(body["format"])}; expected "json" or a JSON schema'
    tokens = sum(len(message["content"]) for message in body["messages"]) // 4
    if tokens > body.get("options", {}).get("num_ctx", CONTEXT) and body.get("truncate", True) is False:
        return "the input length exceeds the context length"
    return None


async def _error(asked: Asked, status: int, text: str) -> None:
    await asked.answer(status, json.dumps({"error": text}).encode())


def _line(message: dict[str, Any]) -> dict[str, Any]:
    return {"model": "engine-model", **_NUMBER, "message": {"role": "assistant", "content": "", **message}, "done": False}


def _call(at: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{at}", "function": {"index": at, "name": name, "arguments": json.loads(arguments)}}


def _halves(text: str) -> list[str]:
    return [piece for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]
