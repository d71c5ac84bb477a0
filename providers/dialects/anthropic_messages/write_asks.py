"""A chat as a request to /v1/messages, and what it cannot say of it.

Source: https://docs.claude.com/en/api/messages and the types of anthropic-python 2.11, read 2026-11.
"""

from typing import Any, assert_never

import msgspec
from msgspec import Raw

from providers.chat import ChatRequest, HostTool, Message, Text, Tool, ToolChoice
from providers.dialect import Concessions
from providers.dialects.anthropic_messages.blocks import plain
from providers.dialects.anthropic_messages.seals import NAME
from providers.dialects.anthropic_messages.write_blocks import write_content
from providers.guided import JsonSchema
from providers.wire import UNREADABLE, Body

_object = msgspec.json.Decoder(dict[str, Raw])
_NO_PARAMETERS = Raw(b'{"type":"object","properties":{}}')

# Tiers that OpenAI's callers may ask for too.
_TIERS = {"auto": "auto", "default": "standard_only"}

_CACHE = "cache_control"

# Where the keys of an object are said again that it was read without, by what their names begin with among the extra ones.
_OBJECTS = {
    "output_config.format.": ("output_config", "format"),
    "output_format.": ("output_config", "format"),
    "output_config.": ("output_config",),
    "thinking.": ("thinking",),
    "tool_choice.": ("tool_choice",),
}


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    """`max_tokens`, which Anthropic demands, is left out where it is not said: the provider fills it in."""
    return _Writing(chat, concessions).body()


class _Writing:
    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self._chat = chat
        self._own = chat.origin == NAME
        self._concessions = concessions

    def body(self) -> Body:
        chat = self._chat
        system, messages = self._messages()
        tools = self._tools()
        output_config, thinking = self._output_config(), self._thinking()
        if chat.thinking is not None and chat.thinking.effort not in (None, "none"):
            output_config["effort"] = "low" if chat.thinking.effort == "minimal" else chat.thinking.effort
        body = Body(model=chat.model, messages=messages)
        more: dict[str, Any] = {
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
            "service_tier": self._tier(),
        }
        # 0 is a number that was said; an empty list or object was not.
        body.update({key: value for key, value in more.items() if value is not None and value not in ("", [], {})})
        self._extra(body)
        self._unsayable()
        return body

    def _messages(self) -> tuple[Any, list[dict[str, Any]]]:
        """What instructs comes before the rest, in `system`; what instructs later stays where it is. The roles take turns."""
        messages = list(self._chat.messages)
        if self._chat.prompt is not None:
            self._concessions.without("prompt", "it answers messages, and goes on with no text.")
            messages.append(Message("user", (Text(self._chat.prompt),)))
        system: list[Any] = []
        turns: list[dict[str, Any]] = []
        for at, message in enumerate(messages):
            blocks = write_content(message, f"messages[{at}]", self._concessions, own=self._own)
            more = self._message_extra(message, f"messages[{at}]")
            role = "system" if message.role == "developer" else message.role
            if role == "system" and not turns:
                system += blocks
            elif turns and turns[-1]["role"] == role and not more:
                turns[-1]["content"] += blocks
            elif blocks:
                turns.append({"role": role, "content": blocks, **more})
        if not turns and system:
            # Anthropic answers messages alone: the last of the instructions is what there is to answer.
            turns.append({"role": "user", "content": [system.pop()]})
        for turn in turns:
            turn["content"] = plain(turn["content"])
        return plain(system), turns

    def _message_extra(self, message: Message, path: str) -> dict[str, Any]:
        if message.name is not None:
            self._concessions.without(f"{path}.name", "its messages name no participants.")
        if self._own:
            return dict(message.extra)
        for key, value in message.extra.items():
            if message.role == "assistant":
                self._concessions.hint(f"{path}.{key}")
            else:
                self._concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
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
                        self._concessions.without(path, f"`{tool.kind}` is a tool of another API's own, which only that knows.")
                case Tool():
                    if tool.custom:
                        self._concessions.without(path, "its tools take JSON, not free text.")
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
            if self._own or key == _CACHE:
                written[key] = value
            else:
                self._concessions.extra(f"{path}.{key}", value, "it is a field of another API.")
        return written

    def _tool_choice(self, tools: list[Any]) -> dict[str, Any] | None:
        choice, parallel = self._chat.tool_choice, self._chat.parallel_calls
        if not tools and not self._own:
            if choice is not None and choice.mode in ("required", "named"):
                self._concessions.without("tool_choice", "there is no tool that it could call.")
            return None
        if choice is None and parallel is not False:
            return None
        written = _choice(choice)
        if parallel is not None and written["type"] != "none":
            written["disable_parallel_tool_use"] = not parallel
        return written

    def _output_config(self) -> dict[str, Any]:
        output = self._chat.output
        if output is None:
            return {}
        if isinstance(output, JsonSchema):
            return {"format": {"type": "json_schema", "schema": self._schema(output)}}
        self._concessions.without("output", "it constrains answers by a JSON schema and by nothing else.")
        return {}

    def _schema(self, output: JsonSchema) -> Raw:
        """Its name only labels it. Anthropic keeps to every schema: not to is nothing that can be asked."""
        if output.strict is False:
            self._concessions.hint("output.strict")
        if output.description is None:
            return output.schema
        try:
            schema = _object.decode(output.schema)
        except UNREADABLE:
            schema = None
        if schema is None or "description" in schema:
            self._concessions.hint("output")
            return output.schema
        return Raw(msgspec.json.encode({"description": output.description, **schema}))

    def _thinking(self) -> dict[str, Any] | None:
        thinking = self._chat.thinking
        if thinking is None:
            return None
        written: dict[str, Any] | None = None
        if thinking.effort == "none":
            written = {"type": "disabled"}
        elif thinking.budget_tokens is not None:
            written = {"type": "enabled", "budget_tokens": thinking.budget_tokens}
        elif thinking.adaptive or (thinking.effort is not None and not self._own):
            written = {"type": "adaptive"}
        if thinking.summary is not None:
            if written is None or thinking.effort == "none":
                self._concessions.hint("thinking.summary")
            else:
                written["display"] = "omitted" if thinking.summary == "omitted" else "summarized"
        return written

    def _temperature(self) -> float | None:
        told = self._chat.temperature
        if told is not None and told > 1:
            self._concessions.without("temperature", "it takes temperatures from 0 to 1.")
            return None
        return told

    def _metadata(self) -> dict[str, str]:
        written: dict[str, str] = {}
        if self._chat.user is not None:
            written["user_id"] = self._chat.user
        if self._chat.metadata:
            if self._own:
                return {**written, **self._chat.metadata}
            self._concessions.hint("metadata")
        return written

    def _tier(self) -> str | None:
        told = self._chat.service_tier
        if told is None or told in _TIERS:
            return _TIERS.get(told or "")
        if self._own:
            return told
        self._concessions.hint("service_tier")
        return None

    def _extra(self, body: Body) -> None:
        """What Anthropic's own callers said beside; of an object that is written anyway, the keys that are left of it."""
        for key, value in self._chat.extra.items():
            if not self._own:
                self._concessions.extra(key, value, "it is a field of another API.")
                continue
            outer = next((outer for outer in _OBJECTS if key.startswith(outer)), None)
            # An object that was not read stays whole: then a path into it is a mere name, which looks like one.
            if outer is not None and _OBJECTS[outer][0] not in self._chat.extra:
                _put(body, _OBJECTS[outer], key.removeprefix(outer), value)
            elif key == "metadata" and key in body:
                body[key] = {**_object.decode(value), **body[key]}
            else:
                body[key] = value

    def _unsayable(self) -> None:
        chat, without, hint = self._chat, self._concessions.without, self._concessions.hint
        why = "Anthropic has no word for it."
        if chat.n is not None and chat.n > 1:
            without("n", "it answers once.")
        if chat.seed is not None:
            without("seed", why)
        if chat.logit_bias is not None:
            without("logit_bias", why)
        if chat.logprobs or chat.top_logprobs:
            without("logprobs", why)
        if chat.frequency_penalty:
            without("frequency_penalty", why)
        if chat.presence_penalty:
            without("presence_penalty", why)
        if chat.verbosity is not None:
            without("verbosity", why)
        for field in ("safety_identifier", "store", "cache_key"):
            if getattr(chat, field) is not None:
                hint(field)


def _put(body: Body, place: tuple[str, ...], key: str, value: Raw) -> None:
    into: dict[str, Any] = body
    for name in place:
        into = into.setdefault(name, {})
    into[key] = value


def _choice(choice: ToolChoice | None) -> dict[str, Any]:
    if choice is None:
        return {"type": "auto"}
    match choice.mode:
        case "required":
            return {"type": "any"}
        case "named":
            return {"type": "tool", "name": choice.name}
        case "auto" | "none":
            return {"type": choice.mode}
