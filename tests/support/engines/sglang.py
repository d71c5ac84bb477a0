"""SGLang as a scripted engine: the chat API of 0.5.23, with what it ignores, refuses and continues after a disconnect.

Sources: /reference/engines.md; sgl-project/sglang, entrypoints/openai/protocol.py and serving_chat.py, read 2026-11.
"""

import asyncio
import contextlib
import json
from typing import Any

from tests.support.engines.openai_output import USAGE, ModelOutput, completion_body, stream_chunks
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine, chunk

KNOWN_FIELDS = frozenset(
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
# How many tokens a request generates if nothing stops it.
UNSTOPPED_TOKENS = 2000


class ScriptedSGLang:
    """SGLang's server. With `slow` it generates UNSTOPPED_TOKENS tokens unless aborted, even if the caller disconnects."""

    def __init__(self) -> None:
        self.server = ScriptedEngine()
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.output = ModelOutput(finish_fields={"matched_stop": 2})
        self.queue_full = self.slow = False
        self.grammar_compiles = True  # whether it can compile a grammar
        self.bodies: list[dict[str, Any]] = []
        self.ignored_fields: set[str] = set()  # received fields that it does not know
        self.aborted: list[str] = []
        self.tokens_made: dict[str, int] = {}
        self._running: dict[str, asyncio.Event] = {}

    async def handle(self, request: ReceivedRequest) -> None:
        match request.path:
            case "/abort_request":
                self.aborted.append(request.body["rid"])
                for rid, stopped in self._running.items():
                    if rid.startswith(request.body["rid"]):
                        stopped.set()
                await request.respond(200, b"", "")
            case "/v1/chat/completions":
                await self._chat(request)
            case _:
                await request.respond(404, b'{"detail":"Not Found"}')

    async def _chat(self, request: ReceivedRequest) -> None:
        body = request.body
        self.bodies.append(body)
        self.ignored_fields |= body.keys() - KNOWN_FIELDS
        error = _validation_error(body, self._running)
        if error is not None:
            await _respond_flat_error(request, 400, error)
        elif self.queue_full:
            await _respond_flat_error(request, 503, "The request queue is full.")
        elif not self.grammar_compiles:
            await self._respond_grammar_error(request)
        elif self.slow:
            await self._generate_until_aborted(request)
        elif body.get("stream"):
            request.begin_stream()
            events = stream_chunks(self.output, include_usage=_wants_usage(body), usage=_USAGE)
            for each in (*events, b"[DONE]"):
                request.send_event(each)
            request.end_stream()
        else:
            await request.respond(200, json.dumps(completion_body(self.output, _USAGE)).encode())

    async def _respond_grammar_error(self, request: ReceivedRequest) -> None:
        """Grammars are compiled when the request is in the queue: a stream has begun by then."""
        error = "Failed to compile ebnf grammar: no root"
        if not request.body.get("stream"):
            await _respond_flat_error(request, 400, error)
            return
        request.begin_stream()
        request.send_event({"error": {"object": "error", "message": error, "type": "BadRequestError", "param": None, "code": 400}})
        request.send_event(b"[DONE]")
        request.end_stream()

    async def _generate_until_aborted(self, request: ReceivedRequest) -> None:
        """Generates as SGLang did before #36552: a disconnect stops nothing."""
        rid = request.body["rid"]
        stopped = self._running[rid] = asyncio.Event()
        if request.body.get("stream"):
            request.begin_stream()
        self.tokens_made[rid] = 0
        while self.tokens_made[rid] < UNSTOPPED_TOKENS and not stopped.is_set():
            self.tokens_made[rid] += 1
            if request.body.get("stream") and not request.disconnected.is_set():
                request.send_event(chunk({"content": "x"}))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await stopped.wait()
        del self._running[rid]


_USAGE = {**USAGE, "reasoning_tokens": 1, "prompt_tokens_details": None}


def _wants_usage(body: dict[str, Any]) -> bool:
    options: dict[str, Any] = body.get("stream_options") or {}
    return bool(options.get("include_usage"))


def _validation_error(body: dict[str, Any], running: dict[str, asyncio.Event]) -> str | None:
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
    return next((message for message, wrong in checks.items() if wrong), None)


async def _respond_flat_error(request: ReceivedRequest, status: int, message: str) -> None:
    body = {"object": "error", "message": message, "type": "BadRequestError", "param": None, "code": status}
    await request.respond(status, json.dumps(body).encode())
