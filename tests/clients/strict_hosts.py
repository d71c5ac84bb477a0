"""Scripted hosts of Claude, and an engine with a strict chat template, that refuse what the real ones refuse.

They lead a coding agent through ten turns: nine times they ask for a file, and then they answer.

Sources: /docs/en/build-with-claude/preserved-thinking/prefix-checks and the models' pages of platform.claude.com; profiles/anthropic.py of
pydantic-ai 2.68 (pinned by live calls); the service model of Bedrock Runtime in botocore; "invalid beta flag":
anthropics/claude-code#49370, #82549, router-for-me/CLIProxyAPI#4750; templates: ollama/ollama#17774, ggml-org/llama.cpp#27367; read
2026-11.
"""

import base64
import functools
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import botocore.session  # pyright: ignore[reportMissingTypeStubs]
from botocore.validate import ParamValidator  # pyright: ignore[reportMissingTypeStubs]

from providers.canonical.chat import OpaqueState, Part, Reasoning, Text, ToolCall, Usage
from tests.clients.scripted_model import SCENARIO, read_file_call, tool_names
from tests.conformance.situations import ANTHROPIC, Situation
from tests.support.scripted_dialects import respond_with
from tests.support.scripted_engine import ReceivedRequest

TURNS = 10
FINAL_TEXT = "All nine steps are read."
# What the files hold tells the host how far the agent is.
_STEP_DONE = re.compile(SCENARIO["step"].replace("{number}", r"(\d)"))
_STEPS_FOLDER = re.compile(r"/[\w/.-]*/steps\b")
Refusals = Iterator[str]

# Betas that a host was seen to refuse. Real hosts know few more than they document.
_REFUSED_AT_BEDROCK = frozenset(
    {
        *("claude-code-20250219", "oauth-2025-04-20", "prompt-caching-scope-2026-01-05", "fast-mode-2026-02-01"),
        *("redact-thinking-2026-02-12", "token-efficient-tools-2026-03-28", "advanced-tool-use-2025-11-20"),
        *("per-turn-control-2026-07-01", "thinking-token-count-2026-05-13"),
    }
)
_REFUSED_AT_VERTEX = frozenset(
    {"oauth-2025-04-20", "fast-mode-2026-02-01", "token-efficient-tools-2026-03-28", "advanced-tool-use-2025-11-20"}
)
_MESSAGE_EFFORT = "mid-conversation-output-config-2026-07-01"
_MESSAGES_FIELDS = frozenset(
    {
        *("anthropic_version", "anthropic_beta", "max_tokens", "messages", "system", "tools", "tool_choice", "stop_sequences", "thinking"),
        *("temperature", "top_p", "top_k", "output_config", "context_management", "metadata"),
    }
)
_TOOL_FIELDS = frozenset({"name", "description", "input_schema", "type", "cache_control", "strict", "defer_loading"})


class StrictHost:
    """A host, or an engine, that refuses what the real one refuses."""

    def __init__(self) -> None:
        self.refused: list[str] = []  # why requests were refused
        self.turns: list[int] = []  # of each request that was answered, how many steps the agent had done by then
        self._prefixes: dict[str, str] = {}

    async def script(self, request: ReceivedRequest) -> None:
        if not request.body:  # a probe of the gateway
            await request.respond(404, b"{}")
            return
        if reasons := [*self._refusals(request)]:
            self.refused += reasons
            await self._refuse(request, reasons[0])
            return
        turn = len({*_STEP_DONE.findall(request.raw.decode())})
        self.turns.append(turn)
        await respond_with(
            Situation(name=f"turn {turn}", parts=self._parts(request, turn), finish=_finish(turn), usage=Usage(input=20, output=9))
        )(request)

    async def _refuse(self, request: ReceivedRequest, reason: str) -> None:
        if "/llamacpp/" in request.path:
            where = "While executing CallExpression at line 85, column 32 in source:\n...first %}↵   {{- raise_exception('Syst"
            message = f"\n------------\n{where}...\n                ^\nError: Jinja Exception: {reason}"
            error = {"code": 500, "type": "server_error", "message": message}
            await request.respond(500, json.dumps({"error": error}).encode())
            return
        await request.respond(400, json.dumps({"message": reason, "error": {"message": reason, "type": "BadRequestError"}}).encode())

    def _parts(self, request: ReceivedRequest, turn: int) -> tuple[Part, ...]:
        parts = (Text(FINAL_TEXT),) if turn == TURNS - 1 else (self._next_step(request, turn + 1),)
        if not request.path.endswith(("/chat/completions", "/responses")) and _thinks(request.body):
            signature = base64.b64encode(f"signature of turn {turn}".encode() * 40).decode()
            self._prefixes[signature] = _prefix(request.body, len(request.body["messages"]))
            return (Reasoning(f"This is turn {turn}.", OpaqueState(ANTHROPIC, signature)), *parts)
        return parts

    def _next_step(self, request: ReceivedRequest, number: int) -> ToolCall:
        folder = _STEPS_FOLDER.search(request.raw.decode())
        assert folder is not None, request.raw[:2000]
        return read_file_call(f"call_step_{number}", f"{folder[0]}/{number}.txt", [*tool_names(request.body)], request.raw)

    def _refusals(self, request: ReceivedRequest) -> Refusals:
        path, body = request.path.partition("?")[0], request.body
        if "/model/" in path:
            yield from _bedrock_refusals(path, body)
        elif "/publishers/anthropic/" in path:
            yield from _vertex_refusals(request)
        else:
            yield from _template_refusals(path, body)
            return
        yield from _model_refusals(path, body)
        yield from self._thinking_refusals(body)

    def _thinking_refusals(self, body: Mapping[str, Any]) -> Refusals:
        """Yields a refusal for each thinking block whose signature is not ours, or whose prefix has changed since."""
        for index, message in enumerate(body["messages"]):
            for block in message["content"] if isinstance(message["content"], list) else ():
                text = block.get("reasoningContent", {}).get("reasoningText", block if block.get("type") == "thinking" else None)
                if text is None:
                    continue
                signature = text.get("signature")
                if signature not in self._prefixes:
                    yield f"messages.{index}: Invalid `signature` in `thinking` block: {signature!r:.40}"
                elif _prefix(body, index) != self._prefixes[signature]:
                    yield f"messages.{index}: Invalid `signature` in `thinking` block. The block is bound to a different conversation."


def _finish(turn: int) -> str:
    return "stop" if turn == TURNS - 1 else "tool_calls"


def _thinks(body: Mapping[str, Any]) -> bool:
    return _model_fields(body).get("thinking", {}).get("type") in ("enabled", "adaptive")


def _model_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of Messages, also of a request to Converse."""
    if "inferenceConfig" not in body and "additionalModelRequestFields" not in body and "toolConfig" not in body:
        return dict(body)
    config = body.get("inferenceConfig", {})
    sampling = {ours: config[theirs] for ours, theirs in (("temperature", "temperature"), ("top_p", "topP")) if theirs in config}
    choice = body.get("toolConfig", {}).get("toolChoice")
    forced = {} if choice is None else {"tool_choice": {"type": next(iter(choice))}}
    return {**body.get("additionalModelRequestFields", {}), **sampling, **forced, "messages": body["messages"]}


def _prefix(body: Mapping[str, Any], messages: int) -> str:
    """Returns the part of a conversation that thinking is bound to, in which cache marks may move and a text may become a block."""
    tools = body.get("tools") or body.get("toolConfig", {}).get("tools")
    return json.dumps(_normalize([body.get("system"), tools, body["messages"][:messages]]))


def _normalize(value: Any) -> Any:
    if isinstance(value, list):
        return [_normalize(each) for each in cast("list[Any]", value) if not (isinstance(each, dict) and "cachePoint" in each)]
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        kept = {name: _normalize(each) for name, each in fields.items() if name != "cache_control"}
        return {**kept, "content": [{"type": "text", "text": fields["content"]}]} if isinstance(fields.get("content"), str) else kept
    return value


def _model_refusals(path: str, body: Mapping[str, Any]) -> Refusals:
    """Yields what the model refuses, whoever hosts it: Opus 5.5, and Sonnet 4.5, which thinks by a budget."""
    fields = _model_fields(body)
    thinking, config = fields.get("thinking", {}), fields.get("output_config", {})
    forced = fields.get("tool_choice", {}).get("type") in ("any", "tool")
    if fields["messages"][-1]["role"] == "assistant" and "opus-5-5" in path:
        yield "This model does not support assistant message prefill."
    if "opus-5-5" in path:
        for name in ("temperature", "top_p", "top_k"):
            if name in fields and not (name == "temperature" and fields[name] == 1):
                yield f"`{name}` is not supported on this model."
        if thinking.get("type") in ("disabled", "enabled", "between_tools"):
            yield f"thinking.type.{thinking['type']} is not supported on this model."
        if forced:
            yield "tool_choice: this model takes only auto and none."
        return
    if thinking.get("type") in ("adaptive", "between_tools"):
        yield "adaptive thinking is not supported on this model"
    if forced and thinking.get("type") == "enabled":
        yield "Thinking may not be enabled when tool_choice forces tool use."
    if "effort" in config:
        yield "This model does not support the effort parameter."
    if thinking.get("type") == "enabled" and fields.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if "temperature" in fields and "top_p" in fields:
        yield "`temperature` and `top_p` cannot both be specified for this model."
    if any(message["role"] == "system" for message in fields["messages"]):
        yield "role 'system' is not supported on this model"


def _bedrock_refusals(path: str, body: Mapping[str, Any]) -> Refusals:
    if "/converse" in path:
        yield from _converse_refusals(body)
        betas = body.get("additionalModelRequestFields", {}).get("anthropic_beta", [])
    else:
        yield from _messages_refusals(body, _MESSAGES_FIELDS)
        if body.get("anthropic_version") != "bedrock-2023-05-31":
            yield "anthropic_version: Field required"
        betas = body.get("anthropic_beta", [])
    if not isinstance(betas, list) or _REFUSED_AT_BEDROCK & {*betas}:
        yield f"invalid beta flag: {betas}"
    if _MESSAGE_EFFORT not in betas and any("output_config" in message for message in body["messages"]):
        yield "messages: output_config: Extra inputs are not permitted"


def _converse_refusals(body: Mapping[str, Any]) -> Refusals:
    validator: Any = ParamValidator()
    report = validator.validate({"modelId": "m", **body}, _converse_shape())
    if report.has_errors():
        yield report.generate_report()
    roles = [message["role"] for message in body["messages"]]
    if any(one == next_one for one, next_one in itertools.pairwise(roles)) or roles[0] != "user":
        yield f"A conversation must alternate between user and assistant roles, starting with user: {roles}"
    for message in body["messages"]:
        if not message["content"]:
            yield "The content field in the Message object is empty."
        if any("text" in block and not block["text"].strip() for block in message["content"]):
            yield "The text field in the ContentBlock object is blank."


@functools.cache
def _converse_shape() -> Any:
    model: Any = botocore.session.get_session().get_service_model("bedrock-runtime")  # pyright: ignore[reportUnknownMemberType]
    return model.operation_model("ConverseStream").input_shape


def _vertex_refusals(request: ReceivedRequest) -> Refusals:
    yield from _messages_refusals(request.body, _MESSAGES_FIELDS | {"stream"})
    if request.body.get("anthropic_version") != "vertex-2023-10-16":
        yield "anthropic_version: Field required"
    betas = [name.strip() for name in request.headers.get("anthropic-beta", "").split(",")]
    if _REFUSED_AT_VERTEX & {*betas}:
        yield f"Unexpected value(s) for the `anthropic-beta` header: {betas}"


def _messages_refusals(body: Mapping[str, Any], fields: frozenset[str]) -> Refusals:
    for name in body.keys() - fields:
        yield f"{name}: Extra inputs are not permitted"
    for index, tool in enumerate(body.get("tools", ())):
        for name in tool.keys() - _TOOL_FIELDS:
            yield f"tools.{index}.custom.{name}: Extra inputs are not permitted"
    for mark in _cache_marks(body):
        for name in mark.keys() - {"type", "ttl"}:
            yield f"cache_control.ephemeral.{name}: Extra inputs are not permitted"
    for index, message in enumerate(body["messages"]):
        for name in message.keys() - {"role", "content", "output_config"}:
            yield f"messages.{index}.{name}: Extra inputs are not permitted"
        blocks: list[dict[str, Any]] = message["content"] if isinstance(message["content"], list) else []
        if any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"messages.{index}: text content blocks must contain non-whitespace text"


def _cache_marks(value: Any) -> Iterator[dict[str, Any]]:
    for name, each in cast("dict[str, Any]", value).items() if isinstance(value, dict) else ():
        if name == "cache_control":
            yield each
        elif name != "input_schema":
            yield from _cache_marks(each)
    for each in cast("list[Any]", value) if isinstance(value, list) else ():
        yield from _cache_marks(each)


def _template_refusals(path: str, body: Mapping[str, Any]) -> Refusals:
    """Refuses instructions anywhere but in a single first message, which in Messages is `system`."""
    roles = [message["role"] for message in body["messages"]]
    if any(role in ("system", "developer") for role in (roles if path.endswith("/messages") else roles[1:])):
        yield "System message must be at the beginning."
