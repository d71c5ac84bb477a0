"""A chat as a request to /v1/messages; what the API cannot express is dropped or refused.

Source: https://docs.claude.com/en/api/messages and the types of anthropic-python 2.11, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, HostTool, Message, Text, Tool, ToolChoice
from providers.canonical.output_format import JsonSchema
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.dialects.anthropic_messages.opaque_states import NAME
from providers.dialects.anthropic_messages.write_content import collapse_text, write_content
from providers.drop_policy import DropPolicy
from providers.fields import drop_extra_fields
from providers.host_tools import leave_out_host_tool
from providers.participant_names import write_participant_names
from providers.unsupported import check_unsupported, drop_part_fields

_object = msgspec.json.Decoder(dict[str, Raw])
_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')

# OpenAI's service tiers with an equivalent.
_TIERS = {"auto": "auto", "default": "standard_only"}

_CACHE_CONTROL = "cache_control"

_NO_SUCH_FIELD = "Anthropic has no such field."
_UNSUPPORTED_FIELDS = {
    "n": "it gives one answer.",
    **dict.fromkeys(("seed", "logit_bias", "frequency_penalty", "presence_penalty", "verbosity"), _NO_SUCH_FIELD),
}

# The objects to which extra fields with these prefixes belong.
_NESTED_OBJECTS = {
    "output_config.format.": ("output_config", "format"),
    "output_format.": ("output_config", "format"),
    "output_config.": ("output_config",),
    "thinking.": ("thinking",),
    "tool_choice.": ("tool_choice",),
}


def write_request(chat: ChatRequest, drop_policy: DropPolicy) -> Body:
    """Leaves out `max_tokens` if the chat has none. Anthropic requires it; the provider sets a default."""
    return _RequestWriter(chat, drop_policy).write_body()


class _RequestWriter:
    def __init__(self, chat: ChatRequest, drop_policy: DropPolicy) -> None:
        self._chat = chat
        self._is_native = chat.origin == NAME
        self._drop_policy = drop_policy

    def write_body(self) -> Body:
        chat = self._chat
        system, messages = self._messages()
        tools = self._tools()
        output_config, thinking = self._output_config(), self._thinking()
        if chat.thinking is not None and chat.thinking.effort not in (None, "none"):
            output_config["effort"] = "low" if chat.thinking.effort == "minimal" else chat.thinking.effort
        body = Body(model=chat.model, messages=messages)
        optional_fields: dict[str, Any] = {
            "max_tokens": chat.max_tokens,
            "system": system,
            "tools": tools,
            "tool_choice": self._tool_choice(tools),
            "thinking": thinking,
            "output_config": output_config,
            "temperature": self._temperature(),
            "top_p": chat.top_p,
            "top_k": chat.top_k,
            "stop_sequences": list(chat.stop),
            "metadata": self._metadata(),
            "service_tier": self._service_tier(),
        }
        # 0 is a value; an empty list or object is not.
        body.update({key: value for key, value in optional_fields.items() if value is not None and value not in ("", [], {})})
        self._write_extra(body)
        self._check_unsupported()
        return body

    def _messages(self) -> tuple[Any, list[dict[str, Any]]]:
        """Returns `system` and the messages. Instructions at the beginning become `system`, later ones stay; messages of one role are
        joined.
        """
        messages = list(write_participant_names(self._chat.messages, self._drop_policy))
        if self._chat.prompt is not None:
            self._drop_policy.drop_or_refuse("prompt", "it answers messages and cannot continue a raw prompt.")
            messages.append(Message("user", (Text(self._chat.prompt),)))
        system: list[Any] = []
        turns: list[dict[str, Any]] = []
        for index, message in enumerate(messages):
            blocks = write_content(message, f"messages[{index}]", self._drop_policy, is_native=self._is_native)
            extra_fields = self._message_extra(message, f"messages[{index}]")
            role = "system" if message.role == "developer" else message.role
            if role == "system" and not turns:
                system += blocks
            elif turns and turns[-1]["role"] == role and not extra_fields:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks, **extra_fields})
        if not turns and system:
            # There must be a message: the last instruction becomes the user's.
            turns.append({"role": "user", "content": [system.pop()]})
        for turn in turns:
            turn["content"] = collapse_text(turn["content"])
        return collapse_text(system), turns

    def _message_extra(self, message: Message, path: str) -> dict[str, Any]:
        if self._is_native:
            return dict(message.extra)
        drop_part_fields(message.extra, path, self._drop_policy, from_assistant=message.role == "assistant")
        return {}

    def _tools(self) -> list[Any]:
        choice = self._chat.tool_choice
        allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
        tools: list[Any] = []
        for index, tool in enumerate(self._chat.tools):
            path = f"tools[{index}]"
            match tool:
                case HostTool():
                    if tool.origin == NAME:
                        tools.append(tool.raw)
                    else:
                        why = f"only another API has the tool `{tool.kind}`, which its host runs itself."
                        leave_out_host_tool(tool, path, why, self._drop_policy)
                case Tool():
                    if tool.custom:
                        self._drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
                    elif allowed is None or tool.name in allowed:
                        tools.append(self._tool(tool, path))
                case _:
                    assert_never(tool)
        return tools

    def _tool(self, tool: Tool, path: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": tool.name, "input_schema": tool.parameters or _NO_PARAMETERS}
        if tool.description is not None:
            written["description"] = tool.description
        if tool.strict is not None:
            written["strict"] = tool.strict
        for key, value in tool.extra.items():
            if self._is_native or key == _CACHE_CONTROL:
                written[key] = value
            else:
                drop_part_fields({key: value}, path, self._drop_policy)
        return written

    def _tool_choice(self, tools: list[Any]) -> dict[str, Any] | None:
        choice, parallel = self._chat.tool_choice, self._chat.parallel_calls
        if not tools and not self._is_native:
            if choice is not None and choice.mode in ("required", "named"):
                self._drop_policy.drop_or_refuse("tool_choice", "there is no tool to call.")
            return None
        if choice is None and parallel is not False:
            return None
        written = _write_tool_choice(choice)
        if parallel is not None and written["type"] != "none":
            written["disable_parallel_tool_use"] = not parallel
        return written

    def _output_config(self) -> dict[str, Any]:
        output = self._chat.output
        if output is None:
            return {}
        if isinstance(output, JsonSchema):
            return {"format": {"type": "json_schema", "schema": self._schema(output)}}
        self._drop_policy.drop_or_refuse("output", "it constrains answers by a JSON schema only.")
        return {}

    def _schema(self, output: JsonSchema) -> Raw:
        """The schema with its description. Its name is only a label, and Anthropic always enforces schemas."""
        if output.strict is False:
            self._drop_policy.drop_hint("output.strict")
        if output.description is None:
            return output.schema
        try:
            schema = _object.decode(output.schema)
        except DECODE_ERRORS:
            schema = None
        if schema is None or "description" in schema:
            self._drop_policy.drop_hint("output")
            return output.schema
        return Raw(msgspec.json.encode({"description": output.description, **schema}))

    def _thinking(self) -> dict[str, Any] | None:
        thinking = self._chat.thinking
        if thinking is None:
            return None
        written: dict[str, Any] | None = None
        if thinking.effort == "none":
            written = {"type": "between_tools" if thinking.between_tools else "disabled"}
        elif thinking.budget_tokens is not None:
            written = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
        elif thinking.adaptive or (thinking.effort is not None and not self._is_native):
            written = {"type": "adaptive"}
        if thinking.summary is not None:
            if written is None or written["type"] == "disabled":
                self._drop_policy.drop_hint("thinking.summary")
            else:
                written["display"] = "omitted" if thinking.summary == "omitted" else "summarized"
        return written

    def _temperature(self) -> float | None:
        temperature = self._chat.temperature
        if temperature is not None and temperature > 1:
            self._drop_policy.drop_or_refuse("temperature", "it takes temperatures from 0 to 1.")
            return None
        return temperature

    def _metadata(self) -> dict[str, str]:
        written: dict[str, str] = {}
        if self._chat.user is not None:
            written["user_id"] = self._chat.user
        if self._chat.metadata:
            if self._is_native:
                return {**written, **self._chat.metadata}
            self._drop_policy.drop_hint("metadata")
        return written

    def _service_tier(self) -> str | None:
        service_tier = self._chat.service_tier
        if service_tier is None or service_tier in _TIERS:
            return _TIERS.get(service_tier or "")
        if self._is_native:
            return service_tier
        self._drop_policy.drop_hint("service_tier")
        return None

    def _write_extra(self, body: Body) -> None:
        """Writes the extra fields of Anthropic's own callers, each into the object to which it belongs."""
        if not self._is_native:
            drop_extra_fields(self._chat.extra, self._drop_policy, "it is a field of another API.")
            return
        for key, value in self._chat.extra.items():
            prefix = next((outer for outer in _NESTED_OBJECTS if key.startswith(outer)), None)
            # If the object itself was left unread, a key that looks like a path into it is a plain name.
            if prefix is not None and _NESTED_OBJECTS[prefix][0] not in self._chat.extra:
                _put_nested(body, _NESTED_OBJECTS[prefix], key.removeprefix(prefix), value)
            elif key == "metadata" and key in body:
                body[key] = {**_object.decode(value), **body[key]}
            else:
                body[key] = value

    def _check_unsupported(self) -> None:
        if self._chat.logprobs or self._chat.top_logprobs:
            self._drop_policy.drop_or_refuse("logprobs", _NO_SUCH_FIELD)
        check_unsupported(self._chat, self._drop_policy, _UNSUPPORTED_FIELDS, ("safety_identifier", "store", "cache_key"))


def _put_nested(body: Body, object_path: tuple[str, ...], key: str, value: Raw) -> None:
    target: dict[str, Any] = body
    for name in object_path:
        target = target.setdefault(name, {})
    target[key] = value


def _write_tool_choice(choice: ToolChoice | None) -> dict[str, Any]:
    if choice is None:
        return {"type": "auto"}
    match choice.mode:
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": choice.name}
        case "auto" | "none":
            return {"type": choice.mode}
