"""vLLM as a scripted engine, current or before 0.12: what it obeys, what it refuses, and what it ignores with a 200.

Sources: a real 0.32 (tests/engines), the request classes of 0.11.2; /reference/engines.md; 2026-11.
"""

import json
from typing import Any

from providers.canonical.chat import OpaqueState, Reasoning, Text, ToolCall
from providers.engines.vllm.fields import IGNORED_FIELDS, IGNORED_FIELDS_BY_DIALECT, IGNORED_HINT_FIELDS
from tests.conformance import engine_anthropic, engine_chat, engine_responses
from tests.conformance.situations import Situation
from tests.support.scripted_engine import ReceivedRequest, ScriptedEngine

_WRITERS = {
    "/v1/chat/completions": ("openai_chat", engine_chat.wire_response),
    "/v1/responses": ("openai_responses", engine_responses.wire_response),
    "/v1/messages": ("anthropic_messages", engine_anthropic.wire_response),
}
_OLD_CONSTRAINT_FIELDS = frozenset({"guided_json", "guided_regex", "guided_choice", "guided_grammar"})


class ScriptedVLLM:
    """A server of vLLM of the given version, which it reports, too."""

    def __init__(self, version: str) -> None:
        self.server = ScriptedEngine()
        self.server.get_responses["/version"] = {"version": version}
        self.server.get_responses["/v1/models"] = {
            "data": [{"id": "engine-model", "object": "model", "owned_by": "vllm", "max_model_len": 4096}]
        }
        self._is_old = version < "0.12"
        self.reset()

    def reset(self) -> None:
        self.server.requests.clear()
        self.server.script = self.handle
        self.text = "Hello."
        self.reasoning = ""
        self.calls_tool = False
        self.queue_full = False  # see --max-num-queued-reqs
        self.ignored_fields: set[str] = set()  # received fields that it does not use
        self.applied_constraints: list[Any] = []  # the constraint of each response, in vLLM's fields; None: unconstrained

    @property
    def requests(self) -> list[ReceivedRequest]:
        return self.server.requests

    async def handle(self, request: ReceivedRequest) -> None:
        dialect, write = _WRITERS[request.path]
        self.ignored_fields |= request.body.keys() & self._unread_fields(dialect)
        error = self._validation_error(request)
        if error is not None:
            await _respond_error(request, 400, "BadRequestError", error)
        elif self.queue_full:
            await _respond_error(request, 503, "ServiceUnavailableError", "The request queue is full.")
        else:
            self.applied_constraints.append(self._constraint(dialect, request.body))
            await _respond(request, write(self._situation(dialect)), dialect)

    def _unread_fields(self, dialect: str) -> frozenset[str]:
        """The fields that an API does not read: Messages not `structured_outputs`, and only old versions the old constraint fields."""
        fields: frozenset[str] = _OLD_CONSTRAINT_FIELDS if not self._is_old else frozenset()
        if dialect == "anthropic_messages":
            fields |= {"structured_outputs"}
        return (IGNORED_FIELDS | IGNORED_FIELDS_BY_DIALECT[dialect] | fields) - IGNORED_HINT_FIELDS

    def _validation_error(self, request: ReceivedRequest) -> str | None:
        body, text = request.body, request.raw.decode()
        outputs = [key for key in ("json", "regex", "choice") if key in (body.get("structured_outputs") or {})]
        named = isinstance(body.get("tool_choice"), dict) and request.path == "/v1/chat/completions"
        checks = {
            "`tools` must not be an empty array.": body.get("tools") == [],
            "When using `tool_choice`, `tools` must be set.": body.get("tool_choice") not in (None, "none") and "tools" not in body,
            "Only one kind of constraint": len(outputs) > 1 or (bool(outputs) and _format(body) is not None),
            "Constraints or tools, not both.": named and bool(outputs),
            "Unsupported chat content part type: 'file'": any(kind in text for kind in ('"file"', '"input_file"', '"document"')),
        }
        return next((message for message, wrong in checks.items() if wrong), None)

    def _constraint(self, dialect: str, body: dict[str, Any]) -> Any:
        """_validation_error has refused what cannot be applied: calls together with a constraint."""
        native = {"openai_responses": "text", "anthropic_messages": "output_config"}.get(dialect)
        if native is not None:
            container: dict[str, Any] = body.get(native) or {}
            return container.get("format")
        old = {key: body[key] for key in sorted(_OLD_CONSTRAINT_FIELDS & body.keys())} if self._is_old else None
        return _format(body) or old or body.get("structured_outputs")

    def _situation(self, dialect: str) -> Situation:
        """Returns the response to write, in which Messages signs reasoning with a meaningless number."""
        signature = OpaqueState(dialect, "47f4ff34") if dialect == "anthropic_messages" else None
        reasoning = (Reasoning(self.reasoning, signature),) if self.reasoning else ()
        if self.calls_tool:
            return Situation(name="", parts=(*reasoning, ToolCall("call_1", "book", '{"a": 1}')), finish="tool_calls")
        return Situation(name="", parts=(*reasoning, Text(self.text)))


def _format(body: dict[str, Any]) -> Any:
    response_format = body.get("response_format")
    return response_format if response_format and response_format["type"] != "text" else None


async def _respond(request: ReceivedRequest, wire: Any, dialect: str) -> None:
    """Sends a response, in which chat names reasoning `reasoning`."""
    rename = (b'"reasoning_content"', b'"reasoning"') if dialect == "openai_chat" else (b"", b"")
    if not request.body.get("stream"):
        await request.respond(200, wire.body.replace(*rename) if rename[0] else wire.body)
        return
    request.begin_stream()
    for frame in wire.stream.split(b"\n\n")[:-1]:
        request.send_chunk((frame.replace(*rename) if rename[0] else frame) + b"\n\n")
    request.end_stream()
    await request.writer.drain()


async def _respond_error(request: ReceivedRequest, status: int, kind: str, message: str) -> None:
    await request.respond(status, json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode())
