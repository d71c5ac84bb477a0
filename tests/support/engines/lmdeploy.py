"""LMDeploy as a scripted engine: the present api_server or that of 0.16 on TurboMind, and LMDeploy's proxy before it.

Sources: /reference/engines.md; the documented API; InternLM/lmdeploy, serve/openai and serve/proxy of 0.16 and 0.18, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.support.engines.openai_output import ModelOutput, completion_body, stream_chunks
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

CHAT_FIELDS = frozenset(
    {
        *("model", "messages", "temperature", "top_p", "n", "stream", "stream_options", "max_completion_tokens", "max_tokens", "stop"),
        *("repetition_penalty", "response_format", "logit_bias", "tools", "tool_choice", "logprobs", "top_logprobs", "seed"),
        *("reasoning_effort", "session_id", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "top_k", "min_p"),
        *("min_new_tokens", "enable_thinking", "return_token_ids", "include_stop_str_in_output", "chat_template_kwargs"),
        *("mm_processor_kwargs",),
    }
)
COMPLETIONS_FIELDS = frozenset(
    {
        *("model", "prompt", "max_completion_tokens", "max_tokens", "temperature", "top_p", "stream", "stream_options", "stop"),
        *("repetition_penalty", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "top_k", "min_p", "seed"),
        *("session_id", "return_token_ids"),
    }
)
_FORMATS = frozenset({"text", "json_object", "json_schema", "regex_schema"})


class ScriptedLMDeploy:
    """LMDeploy's server. With `drops_constraints` it ignores them in silence, as TurboMind of 0.16 does.

    With `slow` it streams until the connection closes.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.output = ModelOutput()
        self.drops_constraints = self.slow = False
        self.forced_response: tuple[int, Any] | None = None  # a status and a body to send instead
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.ignored_fields: set[str] = set()  # received fields that it does not know
        self.stopped = asyncio.Event()

    async def handle(self, request: ReceivedRequest) -> None:
        match request.path:
            case "/v1/chat/completions" | "/v1/completions":
                await self._serve(request, is_chat=request.path == "/v1/chat/completions")
            case _:
                await request.respond(404, b'{"detail":"Not Found"}')

    async def _serve(self, request: ReceivedRequest, *, is_chat: bool) -> None:
        body = request.body
        self.bodies.append(body)
        self.paths.append(request.path)
        self.ignored_fields |= body.keys() - (CHAT_FIELDS if is_chat else COMPLETIONS_FIELDS)
        error = _validation_error(body)
        if error is not None:
            response = {"message": error, "type": "invalid_request_error", "code": 400, "param": None, "object": "error"}
            await request.respond(400, json.dumps(response).encode())
        elif self.forced_response is not None:
            await request.respond(self.forced_response[0], json.dumps(self.forced_response[1]).encode())
        elif self.slow:
            await self._stream_until_disconnected(request)
        elif body.get("stream"):
            await self._stream(request, is_chat=is_chat)
        else:
            response = completion_body(self._output_for(body)) if is_chat else _as_text_completion(completion_body(self.output))
            await request.respond(200, json.dumps(response).encode())

    def _output_for(self, body: dict[str, Any]) -> ModelOutput:
        return ModelOutput("Sure, here it is: 1") if self.drops_constraints and body.get("response_format") else self.output

    async def _stream(self, request: ReceivedRequest, *, is_chat: bool) -> None:
        options: dict[str, Any] = request.body.get("stream_options") or {}
        wants_usage = bool(options.get("include_usage"))
        request.begin_stream()
        for chunk_body in stream_chunks(self._output_for(request.body), include_usage=wants_usage):
            chunk_body = chunk_body if is_chat else _as_text_completion(chunk_body)
            request.send_event({"usage": None, **chunk_body} if wants_usage else chunk_body)
        request.send_event(b"[DONE]")
        request.end_stream()

    async def _stream_until_disconnected(self, request: ReceivedRequest) -> None:
        request.begin_stream()
        while not request.disconnected.is_set():
            request.send_event(chunk({"content": "x"}))
            await asyncio.sleep(0.01)
        self.stopped.set()


def _as_text_completion(body: dict[str, Any]) -> dict[str, Any]:
    """The same output in the form of a text completion."""
    choices = [
        {
            "index": choice["index"],
            "text": (choice.get("message") or choice["delta"]).get("content") or "",
            "finish_reason": choice["finish_reason"],
        }
        for choice in body["choices"]
    ]
    return {**body, "object": "text_completion", "choices": choices}


def _validation_error(body: dict[str, Any]) -> str | None:
    format: dict[str, Any] = body.get("response_format") or {"type": "text"}
    checks = {
        "messages must be a list": "prompt" not in body and not isinstance(body.get("messages"), list),
        "The top_k cannot be a negative integer.": (body.get("top_k") or 0) < 0,
        "response_format.type": format["type"] not in _FORMATS,
        "tool_choice": "tool_choice" in body and body["tool_choice"] is None,
        "reasoning_effort": body.get("reasoning_effort", "low") not in ("low", "medium", "high"),
        "The session_id 13 is occupied.": body.get("session_id") == 13,
    }
    return next((message for message, wrong in checks.items() if wrong), None)


class ScriptedProxy:
    """LMDeploy's proxy: it sends errors with status 200, in an envelope of its own, and in a stream as a bare line.

    With `stream_begun` the error is sent after a first chunk, with `as_json_string` as a JSON string that holds JSON.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.error_body: Any = None  # the error
        self.stream_begun = self.as_json_string = False

    async def handle(self, request: ReceivedRequest) -> None:
        if "/completions" not in request.path:
            await request.respond(404, b'{"detail":"Not Found"}')
        elif self.error_body is None:
            await request.respond_completion()
        elif self.as_json_string or not request.body.get("stream"):
            error_json = json.dumps(self.error_body)
            await request.respond(200, json.dumps(error_json + "\n").encode() if self.as_json_string else error_json.encode())
        else:
            request.begin_stream()
            if self.stream_begun:
                request.send_event(chunk({"role": "assistant", "content": "Hel"}))
                await request.writer.drain()
                await asyncio.sleep(0.02)
            request.send_chunk(json.dumps(self.error_body).encode() + b"\n")
            request.end_stream()
