"""SGLang as a scripted engine: 0.5.23's chat, with what it ignores, refuses and goes on doing after its caller has gone.

Sources: /reference/engines.md; sgl-project/sglang, entrypoints/openai/protocol.py and serving_chat.py, read 2026-11.
"""

import asyncio
import contextlib
import json
from typing import Any

from tests.stories.engines.telling import USAGE, Saying, frames, whole
from tests.stories.scripted import Asked, ScriptedEngine, chunk

KNOWN = frozenset(
    {
        *("messages", "model", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "max_tokens", "max_completion_tokens", "n"),
        *("presence_penalty", "response_format", "seed", "stop", "stream", "stream_options", "temperature", "top_p", "tools"),
        *("tool_choice", "parallel_tool_calls", "reasoning_effort", "top_k", "min_p", "min_tokens", "regex", "ebnf", "repetition_penalty"),
        *("stop_token_ids", "stop_regex", "no_stop_trim", "ignore_eos", "continue_final_message", "skip_special_tokens", "lora_path"),
        *("session_id", "separate_reasoning", "stream_reasoning", "chat_template_kwargs", "rid", "cache_salt", "priority"),
    }
)
_NOT_NULL = frozenset({"n", "logprobs", "parallel_tool_calls", "frequency_penalty", "min_tokens", "ignore_eos", "skip_special_tokens"})
_FORMATS = frozenset({"text", "json_object", "json_schema", "structural_tag"})
# So many tokens a request makes if nobody stops it.
TOKENS = 2000


class ScriptedSGLang:
    """`ignored`: fields that came and that it has no use for. `full`: its queue is. `slow`: it makes TOKENS tokens, whether or not

    anybody listens. `compiles`: whether it can make out a grammar.
    """

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.saying = Saying(ending={"matched_stop": 2})
        self.full = self.slow = False
        self.compiles = True
        self.bodies: list[dict[str, Any]] = []
        self.ignored: set[str] = set()
        self.aborted: list[str] = []
        self.made: dict[str, int] = {}
        self._running: dict[str, asyncio.Event] = {}

    async def answer(self, asked: Asked) -> None:
        match asked.path:
            case "/abort_request":
                self.aborted.append(asked.body["rid"])
                for rid, stopped in self._running.items():
                    if rid.startswith(asked.body["rid"]):
                        stopped.set()
                await asked.answer(200, b"", "")
            case "/v1/chat/completions":
                await self._chat(asked)
            case _:
                await asked.answer(404, b'{"detail":"Not Found"}')

    async def _chat(self, asked: Asked) -> None:
        body = asked.body
        self.bodies.append(body)
        self.ignored |= body.keys() - KNOWN
        fault = _fault(body, self._running)
        if fault is not None:
            await _flat(asked, 400, fault)
        elif self.full:
            await _flat(asked, 503, "The request queue is full.")
        elif not self.compiles:
            await self._not_compiled(asked)
        elif self.slow:
            await self._make(asked)
        elif body.get("stream"):
            asked.begin_stream()
            told = frames(self.saying, tells_usage=_wants_usage(body), usage=_USAGE)
            for each in (*told, b"[DONE]"):
                asked.frame(each)
            asked.end_stream()
        else:
            await asked.answer(200, json.dumps(whole(self.saying, _USAGE)).encode())

    async def _not_compiled(self, asked: Asked) -> None:
        """Grammars are compiled once the request is in its queue: a stream has begun by then."""
        fault = "Failed to compile ebnf grammar: no root"
        if not asked.body.get("stream"):
            await _flat(asked, 400, fault)
            return
        asked.begin_stream()
        asked.frame({"error": {"object": "error", "message": fault, "type": "BadRequestError", "param": None, "code": 400}})
        asked.frame(b"[DONE]")
        asked.end_stream()

    async def _make(self, asked: Asked) -> None:
        """As before #36552: that nobody listens stops nothing."""
        rid = asked.body["rid"]
        stopped = self._running[rid] = asyncio.Event()
        if asked.body.get("stream"):
            asked.begin_stream()
        self.made[rid] = 0
        while self.made[rid] < TOKENS and not stopped.is_set():
            self.made[rid] += 1
            if asked.body.get("stream") and not asked.left.is_set():
                asked.frame(chunk({"content": "x"}))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await stopped.wait()
        del self._running[rid]


_USAGE = {**USAGE, "reasoning_tokens": 1, "prompt_tokens_details": None}


def _wants_usage(body: dict[str, Any]) -> bool:
    options: dict[str, Any] = body.get("stream_options") or {}
    return bool(options.get("include_usage"))


def _fault(body: dict[str, Any], running: dict[str, asyncio.Event]) -> str | None:
    choice = body.get("tool_choice")
    format: dict[str, Any] = body.get("response_format") or {"type": "text"}
    constrained = [key for key in ("regex", "ebnf") if body.get(key)] + (["response_format"] if format["type"] != "text" else [])
    calling = choice == "required" or isinstance(choice, dict)
    checks = {
        "Messages cannot be empty.": not isinstance(body.get("messages"), list) or not body["messages"],
        "Input should not be null": any(body.get(key, 1) is None for key in _NOT_NULL),
        "response_format.type": format["type"] not in _FORMATS,
        "schema_ is required": format["type"] == "json_schema" and not isinstance(format["json_schema"].get("schema"), dict),
        "Only one of regex, ebnf, json_schema or structural_tag": len(constrained) > 1,
        "tool_choice and a constraint": calling and bool(constrained),
        "Tools cannot be empty": calling and not body.get("tools"),
        "top_k must be -1 or at least 1": body.get("top_k", -1) == 0,
        "at most 32 stop strings": len(body.get("stop") or ()) > 32 and isinstance(body["stop"], list),
        "Duplicate request ID detected": body.get("rid") in running,
    }
    return next((said for said, wrong in checks.items() if wrong), None)


async def _flat(asked: Asked, status: int, message: str) -> None:
    body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}
    await asked.answer(status, json.dumps(body).encode())
