"""vLLM as a scripted engine, of today or before 0.12: what it obeys, what it refuses, and what it passes over with a 200.

Sources: a real 0.32 (tests/engines), the request classes of 0.11.2; /reference/engines.md; 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.situations import Situation
from tests.stories.scripted import Asked, ScriptedEngine

_SPEAK = {
    "/v1/chat/completions": ("openai_chat", engine_chat.speak),
    "/v1/responses": ("openai_responses", engine_responses.speak),
    "/v1/messages": ("anthropic_messages", engine_anthropic.speak),
}
_OLD_WORDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar"})


class ScriptedVLLM:
    """`version`: what it tells, and is. `says`: its text. `ignored`: what came that it has no use for.

    `bound`: what bound each answer, in its own words; None: nothing did. `full`: its queue is, as of --max-num-queued-reqs.
    """

    def __init__(self, version: str) -> None:
        self.server = ScriptedEngine()
        self.server.told["/version"] = {"version": version}
        self.server.told["/v1/models"] = {"data": [{"id": "engine-model", "object": "model", "owned_by": "vllm", "max_model_len": 4096}]}
        self._is_old = version < "0.12"
        self.fresh()

    def fresh(self) -> None:
        self.server.asked.clear()
        self.server.script = self.answer
        self.says = "Hello."
        self.thinks = ""
        self.calls = False
        self.full = False
        self.ignored: set[str] = set()
        self.bound: list[Any] = []

    @property
    def asked(self) -> list[Asked]:
        return self.server.asked

    async def answer(self, asked: Asked) -> None:
        dialect, speak = _SPEAK[asked.path]
        self.ignored |= asked.body.keys() & self._unread(dialect)
        fault = self._fault(asked)
        if fault is not None:
            await _told(asked, 400, "BadRequestError", fault)
        elif self.full:
            await _told(asked, 503, "ServiceUnavailableError", "The request queue is full.")
        else:
            self.bound.append(self._binds(dialect, asked.body))
            await _say(asked, speak(self._situation(dialect)), dialect)

    def _unread(self, dialect: str) -> frozenset[str]:
        """`structured_outputs` is read in all but Messages; the old words by old ones alone."""
        words: frozenset[str] = _OLD_WORDS if not self._is_old else frozenset()
        if dialect == "anthropic_messages":
            words |= {"structured_outputs"}
        return (IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT[dialect] | words) - IGNORED_HINT_FIELDS

    def _fault(self, asked: Asked) -> str | None:
        body, text = asked.body, asked.raw.decode()
        outputs = [key for key in ("json", "regex", "choice") if key in (body.get("structured_outputs") or {})]
        named = isinstance(body.get("tool_choice"), dict) and asked.path == "/v1/chat/completions"
        checks = {
            "`tools` must not be an empty array.": body.get("tools") == [],
            "When using `tool_choice`, `tools` must be set.": body.get("tool_choice") not in (None, "none") and "tools" not in body,
            "Only one kind of constraint": len(outputs) > 1 or (bool(outputs) and _format(body) is not None),
            "Constraints or tools, not both.": named and bool(outputs),
            "Unsupported chat content part type: 'file'": any(kind in text for kind in ('"file"', '"input_file"', '"document"')),
        }
        return next((said for said, wrong in checks.items() if wrong), None)

    def _binds(self, dialect: str, body: dict[str, Any]) -> Any:
        """What is refused before it gets here is not thought of: calls beside a constraint."""
        native = {"openai_responses": "text", "anthropic_messages": "output_config"}.get(dialect)
        if native is not None:
            said: dict[str, Any] = body.get(native) or {}
            return said.get("format")
        old = {key: body[key] for key in sorted(_OLD_WORDS & body.keys())} if self._is_old else None
        return _format(body) or old or body.get("structured_outputs")

    def _situation(self, dialect: str) -> Situation:
        """In Messages it signs what was thought, with a number of no meaning."""
        seal = OpaqueState(dialect, "47f4ff34") if dialect == "anthropic_messages" else None
        thoughts = (Reasoning(self.thinks, seal),) if self.thinks else ()
        if self.calls:
            return Situation(name="", parts=(*thoughts, ToolCall("call_1", "book", '{"a": 1}')), finish="tool_calls")
        return Situation(name="", parts=(*thoughts, Text(self.says)))


def _format(body: dict[str, Any]) -> Any:
    told = body.get("response_format")
    return told if told and told["type"] != "text" else None


async def _say(asked: Asked, wire: Any, dialect: str) -> None:
    """Its name for reasoning in chat is `reasoning`."""
    rename = (b'"reasoning_content"', b'"reasoning"') if dialect == "openai_chat" else (b"", b"")
    if not asked.body.get("stream"):
        await asked.answer(200, wire.whole.replace(*rename) if rename[0] else wire.whole)
        return
    asked.begin_stream()
    for frame in wire.stream.split(b"\n\n")[:-1]:
        asked.piece((frame.replace(*rename) if rename[0] else frame) + b"\n\n")
    asked.end_stream()
    await asked.writer.drain()


async def _told(asked: Asked, status: int, kind: str, message: str) -> None:
    await asked.answer(status, json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode())
