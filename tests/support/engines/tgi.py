"""Text Generation Inference as a scripted engine: the chat API of 3.3, with what it reads differently from OpenAI, refuses and ignores.

Sources: /reference/engines.md; text-generation-inference, router/src/lib.rs, chat.rs and validation.rs, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.support.engines.openai_output import ModelOutput, completion_body, stream_chunks
from tests.support.processes.wait_until import GENEROUS_S
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

# It also accepts `n` and `logit_bias`, and does not use them.
USED_FIELDS = frozenset(
    {
        *("model", "messages", "frequency_penalty", "logprobs", "top_logprobs", "max_tokens", "presence_penalty", "stop", "stream"),
        *("seed", "temperature", "top_p", "tools", "tool_prompt", "tool_choice", "response_format", "guideline", "stream_options"),
    }
)


class ScriptedTGI:
    """TGI's server. With `fails_midway` its stream ends with an error.

    With `slow` it stalls until the caller disconnects, which sets `disconnected`.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.output = ModelOutput()
        self.overloaded = self.generation_fails = self.fails_midway = self.slow = False
        self.disconnected = asyncio.Event()
        self.bodies: list[dict[str, Any]] = []
        self.ignored_fields: set[str] = set()  # received fields that it does not use
        self.repetition_penalty: float | None = None  # that of the last request, as it understands it

    async def handle(self, request: ReceivedRequest) -> None:
        match request.path:
            case "/v1/chat/completions":
                await self._chat(request)
            case _:
                await request.respond(404, b"", "")

    async def _chat(self, request: ReceivedRequest) -> None:
        body = request.body
        self.bodies.append(body)
        self.ignored_fields |= body.keys() - USED_FIELDS
        self.repetition_penalty = None if body.get("presence_penalty") is None else body["presence_penalty"] + 2
        deserialization_error, validation_error = _deserialization_error(body), _validation_error(body)
        if deserialization_error is not None:
            text = f"Failed to deserialize the JSON body into the target type: {deserialization_error}"
            await request.respond(422, text.encode(), "content-type: text/plain; charset=utf-8\r\n")
        elif validation_error is not None:
            await _respond_error(request, 422, validation_error, "validation")
        elif self.overloaded:
            await _respond_error(request, 429, "Model is overloaded", "overloaded")
        elif self.generation_fails:
            await _respond_error(request, 424, "Request failed during generation: Server error: CANCELLED", "generation")
        elif self.slow:
            await self._wait_until_disconnected(request)
        elif body.get("stream"):
            request.begin_stream()
            options: dict[str, Any] = body.get("stream_options") or {}
            events = stream_chunks(self._output_of_tgi(), include_usage=bool(options.get("include_usage")))
            for frame in events[:2] if self.fails_midway else events:
                request.send_event(frame)
            request.send_event(
                {"error": {"message": "Request failed during generation", "http_status_code": 424}} if self.fails_midway else b"[DONE]"
            )
            request.end_stream()
        else:
            await request.respond(200, json.dumps(completion_body(self._output_of_tgi())).encode())

    async def _wait_until_disconnected(self, request: ReceivedRequest) -> None:
        """A closed connection drops a request there, streamed or not: a response that is not streamed is collected from axum's stream."""
        if request.body.get("stream"):
            request.begin_stream()
            request.send_event(stream_chunks(self._output_of_tgi(), include_usage=False)[0])
            await request.writer.drain()
        await asyncio.wait_for(request.disconnected.wait(), GENEROUS_S)
        self.disconnected.set()

    def _output_of_tgi(self) -> ModelOutput:
        """Its finish reason is `stop` even after calls, and it makes one call at most."""
        return ModelOutput(
            self.output.text, calls=self.output.calls[:1], finish=self.output.finish, finish_fields={"finish_reason": self.output.finish}
        )


def _deserialization_error(body: dict[str, Any]) -> str | None:
    if "stop" in body and not isinstance(body["stop"], list):
        return "stop: invalid type: string, expected a sequence"
    format = body.get("response_format")
    if format is not None and format.get("type") not in ("json", "regex", "json_schema"):
        return (
            f"response_format.type: unknown variant `{format.get('type')}`, expected one of `json`, `json_object`, `json_schema`, `regex`"
        )
    if format is not None and "value" not in format:
        return "response_format: missing field `value`"
    for message in body["messages"]:
        for part in message["content"] if isinstance(message.get("content"), list) else ():
            if part["type"] not in ("text", "image_url"):
                return f"messages.content: unknown variant `{part['type']}`, expected `text` or `image_url`"
    return None


def _validation_error(body: dict[str, Any]) -> str | None:
    if body.get("response_format") is not None and body.get("tools"):
        return "Grammar error: Grammar and tools are mutually exclusive"
    if body.get("top_p") is not None and not 0 < body["top_p"] < 1:
        return "Input validation error: `top_p` must be > 0.0 and < 1.0"
    return None


async def _respond_error(request: ReceivedRequest, status: int, text: str, kind: str) -> None:
    await request.respond(status, json.dumps({"error": text, "error_type": kind}).encode())
