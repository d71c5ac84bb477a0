"""Text Generation Inference as a scripted engine: 3.3's chat, with what it takes otherwise than OpenAI, refuses and passes over.

Sources: /reference/engines.md; text-generation-inference, router/src/lib.rs, chat.rs and validation.rs, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.stories.engines.telling import Saying, frames, whole
from tests.stories.scripted import Asked, ScriptedEngine

# `n` and `logit_bias` are fields of its that nothing is made of.
USED = frozenset(
    {
        *("model", "messages", "frequency_penalty", "logprobs", "top_logprobs", "max_tokens", "presence_penalty", "stop", "stream"),
        *("seed", "temperature", "top_p", "tools", "tool_prompt", "tool_choice", "response_format", "guideline", "stream_options"),
    }
)


class ScriptedTGI:
    """`ignored`: fields that came and that nothing was made of. `full`, `fails`: it is overloaded, its generation fails.

    `repetition`: the repetition penalty that the last ask had. `dies`: a stream does, midway.
    `slow`: it never ends. `left`: its caller did.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.saying = Saying()
        self.full = self.fails = self.dies = self.slow = False
        self.left = asyncio.Event()
        self.bodies: list[dict[str, Any]] = []
        self.ignored: set[str] = set()
        self.repetition: float | None = None

    async def answer(self, asked: Asked) -> None:
        match asked.path:
            case "/v1/chat/completions":
                await self._chat(asked)
            case _:
                await asked.answer(404, b"", "")

    async def _chat(self, asked: Asked) -> None:
        body = asked.body
        self.bodies.append(body)
        self.ignored |= body.keys() - USED
        self.repetition = None if body.get("presence_penalty") is None else body["presence_penalty"] + 2
        unread, invalid = _unread(body), _invalid(body)
        if unread is not None:
            text = f"Failed to deserialize the JSON body into the target type: {unread}"
            await asked.answer(422, text.encode(), "content-type: text/plain; charset=utf-8\r\n")
        elif invalid is not None:
            await _error(asked, 422, invalid, "validation")
        elif self.full:
            await _error(asked, 429, "Model is overloaded", "overloaded")
        elif self.fails:
            await _error(asked, 424, "Request failed during generation: Server error: CANCELLED", "generation")
        elif self.slow:
            await self._go_on(asked)
        elif body.get("stream"):
            asked.begin_stream()
            options: dict[str, Any] = body.get("stream_options") or {}
            told = frames(self._said(), tells_usage=bool(options.get("include_usage")))
            for frame in told[:2] if self.dies else told:
                asked.frame(frame)
            asked.frame({"error": {"message": "Request failed during generation", "http_status_code": 424}} if self.dies else b"[DONE]")
            asked.end_stream()
        else:
            await asked.answer(200, json.dumps(whole(self._said())).encode())

    async def _go_on(self, asked: Asked) -> None:
        """Until the connection closes, by which a request is dropped there: its stream is one of axum's, and a whole answer folds one."""
        if asked.body.get("stream"):
            asked.begin_stream()
            asked.frame(frames(self._said(), tells_usage=False)[0])
            await asked.writer.drain()
        await asyncio.wait_for(asked.left.wait(), 5)
        self.left.set()

    def _said(self) -> Saying:
        """It ends with `stop`, calls or not, and makes one call at most."""
        return Saying(
            self.saying.text, calls=self.saying.calls[:1], finish=self.saying.finish, ending={"finish_reason": self.saying.finish}
        )


def _unread(body: dict[str, Any]) -> str | None:
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


def _invalid(body: dict[str, Any]) -> str | None:
    if body.get("response_format") is not None and body.get("tools"):
        return "Grammar error: Grammar and tools are mutually exclusive"
    if body.get("top_p") is not None and not 0 < body["top_p"] < 1:
        return "Input validation error: `top_p` must be > 0.0 and < 1.0"
    return None


async def _error(asked: Asked, status: int, text: str, kind: str) -> None:
    await asked.answer(status, json.dumps({"error": text, "error_type": kind}).encode())
