"""Writes a canonical request as a Responses request. It is stateless, as the gateway keeps the conversations."""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from providers.canonical.chat import ChatRequest, HostTool, Thinking, Tool, ToolChoice
from providers.canonical.output_format import Choice, Grammar, JsonObject, JsonSchema, OutputFormat, Regex, StructuralTag
from providers.canonical.raw_json import Body
from providers.dialects.openai_responses.dialect_name import DIALECT
from providers.dialects.openai_responses.include_values import ENCRYPTED_REASONING, LOGPROBS_INCLUDE
from providers.dialects.openai_responses.read_request import SAME_FIELDS
from providers.dialects.openai_responses.write_input import NO_SUCH_FIELD, InputWriter
from providers.drop_policy import DropPolicy
from providers.host_tools import leave_out_host_tool
from providers.structured_output import write_structured_outputs
from providers.unsupported import check_unsupported

# Extra fields that OpenAI chat has too.
_SHARED_WITH_CHAT = frozenset({"prompt_cache_retention", "prompt_cache_options"})
# Objects whose extra fields are in `extra` by their paths. Inner objects first.
_NESTED_FIELDS = ("text.format", "text", "reasoning", "tool_choice", "stream_options")
# For a function without parameters: the field is required.
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
# Fields that some engines accept but that are not part of this API.
_UNSUPPORTED_FIELDS = frozenset({"top_k", "seed", "frequency_penalty", "presence_penalty"})


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    writer = _RequestWriter(chat, drop_policy)
    body = Body(model=chat.model)
    writer.refuse_unsupported()
    for name, key in SAME_FIELDS.items():
        value = getattr(chat, name)
        if value is not None and (writer.same_dialect or name not in _UNSUPPORTED_FIELDS):
            body[key] = value
    writer.input.write(body)
    if chat.tools:
        body["tools"] = writer.write_tools()
    if chat.tool_choice is not None and writer.can_choose(chat.tool_choice, body):
        body["tool_choice"] = writer.write_tool_choice(chat.tool_choice)
    text = writer.write_text(body)
    if text:
        body["text"] = text
    reasoning = writer.write_thinking(chat.thinking)
    if reasoning:
        body["reasoning"] = reasoning
    include = [LOGPROBS_INCLUDE] if chat.logprobs else []
    body.update({key: chat.extra[key] for key in _SHARED_WITH_CHAT & chat.extra.keys()})
    if writer.same_dialect:
        for key, value in chat.extra.items():
            outer = next((each for each in _NESTED_FIELDS if key.startswith(f"{each}.")), None)
            if outer is not None:
                _nested_object(body, outer)[key.removeprefix(f"{outer}.")] = value
            elif key == "include":
                include = [*msgspec.json.decode(value, type=list[str]), *include]
            else:
                body[key] = value
    body["store"] = False
    body["include"] = [*include, ENCRYPTED_REASONING]
    return body


def _nested_object(body: Body, path: str) -> dict[str, Any]:
    """The object at a path of the body, created if it is missing. A format without a type is text."""
    outer, _, inner = path.partition(".")
    nested = body.setdefault(outer, {})
    return nested.setdefault(inner, {"type": "text"}) if inner else nested


class _RequestWriter:
    """Writes one chat. What cannot be expressed goes to the drop policy."""

    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self.chat = chat
        self.same_dialect = chat.origin == DIALECT
        self.drop_policy = drop_policy
        self.input = InputWriter(chat, drop_policy)

    def refuse_unsupported(self) -> None:
        chat, drop_policy = self.chat, self.drop_policy
        if chat.prompt is not None:
            drop_policy.drop_or_refuse("prompt", "the Responses API takes no raw prompt.")
        if chat.stop:
            drop_policy.drop_or_refuse("stop", NO_SUCH_FIELD)
        if chat.n is not None and chat.n > 1:
            drop_policy.drop_or_refuse("n", "a Response has only one choice.")
        check_unsupported(chat, drop_policy, {"logit_bias": NO_SUCH_FIELD}, hints=())
        if self.same_dialect:
            return
        if chat.store:
            drop_policy.drop_hint("store")
        check_unsupported(chat, drop_policy, dict.fromkeys(sorted(_UNSUPPORTED_FIELDS), NO_SUCH_FIELD), hints=())
        self.input.drop_extra("", {key: value for key, value in chat.extra.items() if key not in _SHARED_WITH_CHAT})

    def write_tools(self) -> list[Any]:
        written: list[Any] = []
        for at, tool in enumerate(self.chat.tools):
            path = f"tools[{at}]"
            match tool:
                case HostTool():
                    if tool.origin == DIALECT:
                        written.append(tool.raw)
                    else:
                        leave_out_host_tool(tool, path, f"it has no tool {tool.kind!r:.60}.", self.drop_policy)
                case Tool():
                    self.input.drop_extra(path, tool.extra)
                    written.append({**_write_tool(tool, same_dialect=self.same_dialect), **(tool.extra if self.same_dialect else {})})
                case _:
                    assert_never(tool)
        return written

    def can_choose(self, choice: ToolChoice, body: Body) -> bool:
        if self.same_dialect or body.get("tools") or choice.mode not in ("required", "named"):
            return True
        self.drop_policy.drop_or_refuse("tool_choice", "there is no tool that could be called.")
        return False

    def write_tool_choice(self, choice: ToolChoice) -> Any:
        custom = {tool.name for tool in self.chat.tools if isinstance(tool, Tool) and tool.custom}

        def named(name: str) -> dict[str, str]:
            return {"type": "custom" if name in custom else "function", "name": name}

        if choice.mode == "named":
            return named(choice.name or "")
        if choice.allowed is not None and choice.mode != "none":
            return {"type": "allowed_tools", "mode": choice.mode, "tools": [named(name) for name in choice.allowed]}
        return choice.mode

    def write_text(self, body: Body) -> dict[str, Any]:
        text: dict[str, Any] = {}
        if self.chat.output is not None:
            text_format = self._write_format(self.chat.output, body)
            if text_format is not None:
                text["format"] = text_format
        if self.chat.verbosity is not None:
            text["verbosity"] = self.chat.verbosity
        return text

    def _write_format(self, output: OutputFormat, body: Body) -> dict[str, Any] | None:
        match output:
            case JsonObject():
                return {"type": "json_object"}
            case JsonSchema():
                strict = output.strict
                if strict is None and output.name is None:
                    strict = True  # the caller's dialect always enforces schemas
                fields = {"type": "json_schema", "name": output.name or "answer", "description": output.description, "strict": strict}
                return {**{key: value for key, value in fields.items() if value is not None}, "schema": output.schema}
            case Regex() | Choice() | Grammar() | StructuralTag():
                if self.same_dialect:
                    body.update(write_structured_outputs(output))
                else:
                    self.drop_policy.drop_or_refuse("output", "the Responses API supports only JSON schemas and JSON objects.")
                return None
            case _:
                assert_never(output)

    def write_thinking(self, thinking: Thinking | None) -> dict[str, Any]:
        if thinking is None:
            return {}
        effort = thinking.effort
        if thinking.budget_tokens is not None:
            self.drop_policy.drop_hint("thinking.budget_tokens")
            effort = effort or ("low" if thinking.budget_tokens <= 2048 else "medium" if thinking.budget_tokens <= 8192 else "high")
        elif thinking.adaptive and effort is None:
            self.drop_policy.drop_hint("thinking")
        fields = {"effort": effort, "summary": thinking.summary}
        return {key: value for key, value in fields.items() if value is not None}


def _write_tool(tool: Tool, *, same_dialect: bool) -> dict[str, Any]:
    """The tool. `strict` is always set for other dialects: their tools are not strict by default, those of Responses are."""
    written: dict[str, Any] = {"type": "custom" if tool.custom else "function", "name": tool.name}
    if tool.description is not None:
        written["description"] = tool.description
    if tool.custom:
        if tool.format is not None:
            written["format"] = tool.format
        return written
    if tool.parameters is not None or not same_dialect:
        written["parameters"] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    if tool.strict is not None or not same_dialect:
        written["strict"] = bool(tool.strict)
    return written
