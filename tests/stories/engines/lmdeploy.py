"""LMDeploy as a scripted engine: the api_server of today or of 0.16 on TurboMind, and the proxy before it.

Sources: /reference/engines.md; the documented API; InternLM/lmdeploy, serve/openai and serve/proxy of 0.16 and 0.18, read 2026-11.
"""

import asyncio
import json
from typing import Any

from tests.stories.engines.telling import Saying, frames, whole
from tests.stories.scripted import Asked, ScriptedEngine, chunk

CHAT = frozenset(
    {
        *("model", "messages", "temperature", "top_p", "n", "stream", "stream_options", "max_completion_tokens", "max_tokens", "stop"),
        *("repetition_penalty", "response_format", "logit_bias", "tools", "tool_choice", "logprobs", "top_logprobs", "seed"),
        *("reasoning_effort", "session_id", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "top_k", "min_p"),
        *("min_new_tokens", "enable_thinking", "return_token_ids", "include_stop_str_in_output", "chat_template_kwargs"),
        *("mm_processor_kwargs",),
    }
)
COMPLETIONS = frozenset(
    {
        *("model", "prompt", "max_completion_tokens", "max_tokens", "temperature", "top_p", "stream", "stream_options", "stop"),
        *("repetition_penalty", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "top_k", "min_p", "seed"),
        *("session_id", "return_token_ids"),
    }
)
_FORMATS = frozenset({"text", "json_object", "json_schema", "regex_schema"})


class ScriptedLMDeploy:
    """`ignored`: fields that came and that it has no use for. `drops`: as TurboMind of 0.16, it answers as if nothing constrained it.

    `told`: what it answers instead, with which status. `slow`: it goes on for as long as somebody listens.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.saying = Saying()
        self.drops = self.slow = False
        self.told: tuple[int, Any] | None = None
        self.bodies: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.ignored: set[str] = set()
        self.stopped = asyncio.Event()

    async def answer(self, asked: Asked) -> None:
        match asked.path:
            case "/v1/chat/completions" | "/v1/completions":
                await self._serve(asked, is_chat=asked.path == "/v1/chat/completions")
            case _:
                await asked.answer(404, b'{"detail":"Not Found"}')

    async def _serve(self, asked: Asked, *, is_chat: bool) -> None:
        body = asked.body
        self.bodies.append(body)
        self.paths.append(asked.path)
        self.ignored |= body.keys() - (CHAT if is_chat else COMPLETIONS)
        fault = _fault(body)
        if fault is not None:
            told = {"message": fault, "type": "invalid_request_error", "code": 400, "param": None, "object": "error"}
            await asked.answer(400, json.dumps(told).encode())
        elif self.told is not None:
            await asked.answer(self.told[0], json.dumps(self.told[1]).encode())
        elif self.slow:
            await self._make(asked)
        elif body.get("stream"):
            await self._stream(asked, is_chat=is_chat)
        else:
            told = whole(self._saying(body)) if is_chat else _completed(whole(self.saying))
            await asked.answer(200, json.dumps(told).encode())

    def _saying(self, body: dict[str, Any]) -> Saying:
        return Saying("Sure, here it is: 1") if self.drops and body.get("response_format") else self.saying

    async def _stream(self, asked: Asked, *, is_chat: bool) -> None:
        options: dict[str, Any] = asked.body.get("stream_options") or {}
        wants_usage = bool(options.get("include_usage"))
        asked.begin_stream()
        for told in frames(self._saying(asked.body), tells_usage=wants_usage):
            told = told if is_chat else _completed(told)
            asked.frame({"usage": None, **told} if wants_usage else told)
        asked.frame(b"[DONE]")
        asked.end_stream()

    async def _make(self, asked: Asked) -> None:
        asked.begin_stream()
        while not asked.left.is_set():
            asked.frame(chunk({"content": "x"}))
            await asyncio.sleep(0.01)
        self.stopped.set()


def _completed(told: dict[str, Any]) -> dict[str, Any]:
    """The same, as its completions tell it."""
    choices = [
        {
            "index": choice["index"],
            "text": (choice.get("message") or choice["delta"]).get("content") or "",
            "finish_reason": choice["finish_reason"],
        }
        for choice in told["choices"]
    ]
    return {**told, "object": "text_completion", "choices": choices}


def _fault(body: dict[str, Any]) -> str | None:
    format: dict[str, Any] = body.get("response_format") or {"type": "text"}
    checks = {
        "messages must be a list": "prompt" not in body and not isinstance(body.get("messages"), list),
        "The top_k cannot be a negative integer.": (body.get("top_k") or 0) < 0,
        "response_format.type": format["type"] not in _FORMATS,
        "tool_choice": "tool_choice" in body and body["tool_choice"] is None,
        "reasoning_effort": body.get("reasoning_effort", "low") not in ("low", "medium", "high"),
        "The session_id 13 is occupied.": body.get("session_id") == 13,
    }
    return next((said for said, wrong in checks.items() if wrong), None)


class ScriptedProxy:
    """LMDeploy's proxy: what goes wrong is told with status 200, and of itself in words of its own: a bare line of a stream.

    `wrong`: what it tells. `begun`: a stream has begun by then. `in_string`: it tells an unknown model as a string that holds JSON.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.wrong: Any = None
        self.begun = self.in_string = False

    async def answer(self, asked: Asked) -> None:
        if "/completions" not in asked.path:
            await asked.answer(404, b'{"detail":"Not Found"}')
        elif self.wrong is None:
            await asked.whole()
        elif self.in_string or not asked.body.get("stream"):
            told = json.dumps(self.wrong)
            await asked.answer(200, json.dumps(told + "\n").encode() if self.in_string else told.encode())
        else:
            asked.begin_stream()
            if self.begun:
                asked.frame(chunk({"role": "assistant", "content": "Hel"}))
                await asked.writer.drain()
                await asyncio.sleep(0.02)
            asked.piece(json.dumps(self.wrong).encode() + b"\n")
            asked.end_stream()
