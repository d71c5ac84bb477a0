"""mini-sglang as a scripted engine: a chat that is always streamed, in frames of a text completion, without usage.

Sources: /reference/engines.md; its API's documentation; sgl-project/mini-sglang, python/minisgl/server/api_server.py, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

_TYPES: dict[str, Any] = {
    "model": (str,),
    "prompt": (str, type(None)),
    "messages": (list, type(None)),
    "max_tokens": (int,),
    "temperature": (int, float),
    "top_k": (int,),
    "top_p": (int, float),
    "n": (int,),
    "stream": (bool,),
    "stop": (list,),
    "presence_penalty": (int, float),
    "frequency_penalty": (int, float),
    "ignore_eos": (bool,),
}
# Fields that it accepts and does not use.
_UNUSED = frozenset({"n", "stop", "presence_penalty", "frequency_penalty"})


class ScriptedMiniSGLang:
    """Mini-SGLang's server. With `fails` it responds 500.

    With `slow` its stream stalls until the caller disconnects, which sets `disconnected`.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.tokens = ["Hel", "lo."]  # its output, of which 16 are the default
        self.fails = self.slow = False
        self.bodies: list[dict[str, Any]] = []
        self.ignored_fields: set[str] = set()  # received fields that it does not use
        self.disconnected = asyncio.Event()

    async def handle(self, request: ReceivedRequest) -> None:
        match request.path:
            case "/v1/chat/completions":
                await self._chat(request)
            case _:
                await request.respond(404, b'{"detail":"Not Found"}')

    async def _chat(self, request: ReceivedRequest) -> None:
        body = request.body
        self.bodies.append(body)
        self.ignored_fields |= (body.keys() - _TYPES.keys()) | (body.keys() & _UNUSED)
        error = _validation_error(body)
        if error is not None:
            await request.respond(422, json.dumps({"detail": [error]}).encode())
        elif self.fails or not (body.get("messages") or body.get("prompt")):
            await request.respond(500, b"Internal Server Error", "content-type: text/plain; charset=utf-8\r\n")
        else:
            await self._stream_tokens(request, self.tokens[: body.get("max_tokens", 16)])

    async def _stream_tokens(self, request: ReceivedRequest, tokens: list[str]) -> None:
        request.begin_stream()
        for index, token in enumerate(tokens):
            request.send_event(_chunk({"content": token} if index else {"role": "assistant", "content": token}))
            await request.writer.drain()
            if self.slow:
                await asyncio.wait_for(request.disconnected.wait(), GENEROUS_S)
                self.disconnected.set()
                return
        request.send_event(_chunk({}, "stop"))
        request.send_event(b"[DONE]")
        request.end_stream()


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"id": "cmpl-7", "object": "text_completion.chunk", "choices": [{"delta": delta, "index": 0, "finish_reason": finish}]}


def _validation_error(body: dict[str, Any]) -> dict[str, Any] | None:
    for field, value in body.items():
        if field in _TYPES and not isinstance(value, _TYPES[field]):
            return {"type": "type_error", "loc": ["body", field], "msg": "Input should be a valid value", "input": value}
    messages: list[dict[str, Any]] = body.get("messages") or []
    for index, message in enumerate(messages):
        if message["role"] not in ("system", "user", "assistant"):
            return {
                "type": "literal_error",
                "loc": ["body", "messages", index, "role"],
                "msg": "Input should be 'system', 'user' or 'assistant'",
            }
        if not isinstance(message.get("content"), str):
            return {"type": "string_type", "loc": ["body", "messages", index, "content"], "msg": "Input should be a valid string"}
    return None
