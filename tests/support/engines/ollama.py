"""Ollama as a scripted engine: the native chat API of 0.33 in NDJSON, with what it ignores, refuses and silently truncates.

Sources: /reference/engines.md; ollama/ollama, api/types.go and server/routes.go, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.support.engines.openai_output import ModelOutput
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, completion

KNOWN_FIELDS = frozenset({"model", "messages", "stream", "format", "options", "keep_alive", "tools", "think", "truncate", "shift"}) | {
    *("logprobs", "top_logprobs"),
}
KNOWN_OPTIONS = frozenset(
    {
        *("num_ctx", "num_predict", "temperature", "top_k", "top_p", "min_p", "typical_p", "repeat_penalty", "repeat_last_n"),
        *("presence_penalty", "frequency_penalty", "seed", "stop", "num_keep"),
    }
)
MESSAGE_FIELDS = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"})
# Its context in tokens of four bytes, unless num_ctx is set.
CONTEXT = 4096
_CREATED_AT = {"created_at": "2026-09-21T14:13:20.123456789Z"}


class ScriptedOllama:
    """Ollama's server. With `prompt_cached`, all of the prompt is, so it is not counted.

    With `fails_midway` its stream ends with an error; with `slow` it stalls until the caller disconnects, which sets `disconnected`.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.output = ModelOutput()
        self.busy = self.prompt_cached = self.fails_midway = self.slow = False
        self.bodies: list[dict[str, Any]] = []
        self.ignored_fields: set[str] = set()  # received fields that it does not know
        self.disconnected = asyncio.Event()

    async def handle(self, request: ReceivedRequest) -> None:
        match request.path:
            case "/api/chat":
                await self._chat(request)
            case "/v1/completions":
                self.bodies.append(request.body)
                response = completion()
                response["choices"] = [{"index": 0, "text": self.output.text, "finish_reason": "stop", "logprobs": None}]
                await request.respond(200, json.dumps({**response, "object": "text_completion"}).encode())
            case "/v1/embeddings":
                self.bodies.append(request.body)
                vectors = [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]
                response = {"object": "list", "data": vectors, "model": "engine-model", "usage": {"prompt_tokens": 2, "total_tokens": 2}}
                await request.respond(200, json.dumps(response).encode())
            case _:
                await request.respond(404, b"404 page not found", "content-type: text/plain\r\n")

    async def _chat(self, request: ReceivedRequest) -> None:
        body = request.body
        self.bodies.append(body)
        self.ignored_fields |= (body.keys() - KNOWN_FIELDS) | (body.get("options", {}).keys() - KNOWN_OPTIONS)
        self.ignored_fields |= {key for message in body["messages"] for key in message.keys() - MESSAGE_FIELDS}
        error = _validation_error(body)
        if self.busy:
            await _respond_error(request, 503, "server busy, please try again.  maximum pending requests exceeded")
        elif body["model"] != "engine-model":
            await _respond_error(request, 404, f"model '{body['model']}' not found")
        elif error is not None:
            await _respond_error(request, 400, error)
        elif body.get("stream", True):
            await self._stream(request)
        else:
            line = self._message_line()
            await request.respond(
                200, json.dumps({**line, **self._final_fields()}).encode(), "content-type: application/json; charset=utf-8\r\n"
            )

    async def _stream(self, request: ReceivedRequest) -> None:
        request.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n")
        for line in self._stream_lines():
            request.send_chunk(json.dumps(line).encode() + b"\n")
            await request.writer.drain()
            if self.slow:
                await asyncio.wait_for(request.disconnected.wait(), GENEROUS_S)
                self.disconnected.set()
                return
        request.send_chunk(
            json.dumps({"error": "llama runner process has terminated"} if self.fails_midway else self._final_fields()).encode() + b"\n"
        )
        request.end_stream()

    def _stream_lines(self) -> list[dict[str, Any]]:
        """Reasoning and text in pieces, and each call complete, in a line of its own."""
        output = self.output
        messages = [{"thinking": piece} for piece in _halves(output.reasoning)]
        messages += [{"content": piece} for piece in ([] if output.calls else _halves(output.text))]
        lines = [_line(message) for message in messages]
        return lines + [_line({"tool_calls": [_call(index, *call)]}) for index, call in enumerate(output.calls)]

    def _message_line(self) -> dict[str, Any]:
        output = self.output
        message: dict[str, Any] = {"content": "" if output.calls else output.text}
        if output.reasoning:
            message["thinking"] = output.reasoning
        if output.calls:
            message["tool_calls"] = [_call(index, *call) for index, call in enumerate(output.calls)]
        return _line(message)

    def _final_fields(self) -> dict[str, Any]:
        counts = {"eval_count": 2} if self.prompt_cached else {"prompt_eval_count": 3, "eval_count": 2}
        return {"model": "engine-model", **_CREATED_AT, "done": True, "done_reason": self.output.finish, "total_duration": 5, **counts}


def _validation_error(body: dict[str, Any]) -> str | None:
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


async def _respond_error(request: ReceivedRequest, status: int, text: str) -> None:
    await request.respond(status, json.dumps({"error": text}).encode())


def _line(message: dict[str, Any]) -> dict[str, Any]:
    return {"model": "engine-model", **_CREATED_AT, "message": {"role": "assistant", "content": "", **message}, "done": False}


def _call(index: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{index}", "function": {"index": index, "name": name, "arguments": json.loads(arguments)}}


def _halves(text: str) -> list[str]:
    return [piece for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]
