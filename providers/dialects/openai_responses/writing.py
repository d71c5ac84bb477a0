"""A chat as an ask in Responses: stateless, for the gateway keeps conversations itself."""

from collections.abc import Mapping
from typing import Any, assert_never

import msgspec

from providers.chat import ChatRequest, HostTool, Thinking, Tool, ToolChoice
from providers.dialect import Concessions
from providers.dialects.openai_responses.conversation import SEALED
from providers.dialects.openai_responses.items import ORIGIN
from providers.dialects.openai_responses.reading import LOGPROBS, SAME
from providers.dialects.openai_responses.writing_input import UNSAID, InputWriter
from providers.guided import Choice, Grammar, JsonObject, JsonSchema, Output, Regex, StructuralTag, as_structured_outputs
from providers.wire import Body

# Fields without a name of ours that OpenAI chat has too.
_SHARED = frozenset({"prompt_cache_retention", "prompt_cache_options"})
# Whose fields without a name of ours are in `extra` by their paths. Inner ones first.
_OBJECTS = ("text.format", "text", "reasoning", "tool_choice", "stream_options")
# A function without parameters. The field must be there.
_NO_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}
# Fields that engines may take, and that this API does not have.
_OURS_ALONE = frozenset({"top_k", "seed", "frequency_penalty", "presence_penalty"})


def write_request(chat: ChatRequest, concessions: Concessions) -> Body:
    writing = _Writing(chat, concessions)
    body = Body(model=chat.model)
    writing.refuse_unsaid()
    for name, key in SAME.items():
        value = getattr(chat, name)
        if value is not None and (writing.own or name not in _OURS_ALONE):
            body[key] = value
    writing.input.write(body)
    if chat.tools:
        body["tools"] = writing.tools()
    if chat.tool_choice is not None and writing.can_choose(chat.tool_choice, body):
        body["tool_choice"] = writing.tool_choice(chat.tool_choice)
    text = writing.text(body)
    if text:
        body["text"] = text
    reasoning = writing.thinking(chat.thinking)
    if reasoning:
        body["reasoning"] = reasoning
    include = [LOGPROBS] if chat.logprobs else []
    body.update({key: chat.extra[key] for key in _SHARED & chat.extra.keys()})
    if writing.own:
        for key, value in chat.extra.items():
            outer = next((each for each in _OBJECTS if key.startswith(f"{each}.")), None)
            if outer is not None:
                _object_at(body, outer)[key.removeprefix(f"{outer}.")] = value
            elif key == "include":
                include = [*msgspec.json.decode(value, type=list[str]), *include]
            else:
                body[key] = value
    body["store"] = False
    body["include"] = [*include, SEALED]
    return body


def _object_at(body: Body, path: str) -> dict[str, Any]:
    """Of an ask that is being written. Where nothing is said of a format, it is text."""
    outer, _, inner = path.partition(".")
    found = body.setdefault(outer, {})
    return found.setdefault(inner, {"type": "text"}) if inner else found


class _Writing:
    """One chat, and who is asked what it can go without."""

    def __init__(self, chat: ChatRequest, concessions: Concessions) -> None:
        self.chat = chat
        self.own = chat.origin == ORIGIN
        self.ask = concessions
        self.input = InputWriter(chat, concessions)

    def refuse_unsaid(self) -> None:
        chat, ask = self.chat, self.ask
        if chat.prompt is not None:
            ask.without("prompt", "the Responses API takes no raw prompt.")
        if chat.stop:
            ask.without("stop", UNSAID)
        if chat.n is not None and chat.n > 1:
            ask.without("n", "a Response is one answer.")
        if chat.logit_bias is not None:
            ask.without("logit_bias", UNSAID)
        if self.own:
            return
        if chat.store:
            ask.hint("store")
        for name in sorted(_OURS_ALONE):
            value = getattr(chat, name)
            if value is not None and (value != 0 or not name.endswith("_penalty")):
                ask.without(name, UNSAID)
        self.input.without_extra("", {key: value for key, value in chat.extra.items() if key not in _SHARED})

    def tools(self) -> list[Any]:
        told: list[Any] = []
        for at, tool in enumerate(self.chat.tools):
            path = f"tools[{at}]"
            match tool:
                case HostTool():
                    if tool.origin == ORIGIN:
                        told.append(tool.raw)
                    else:
                        self.ask.without(path, f"it has no tool {tool.kind!r:.60}.")
                case Tool():
                    self.input.without_extra(path, tool.extra)
                    told.append({**_tool(tool, own=self.own), **(tool.extra if self.own else {})})
                case _:
                    assert_never(tool)
        return told

    def can_choose(self, choice: ToolChoice, body: Body) -> bool:
        if self.own or body.get("tools") or choice.mode not in ("required", "named"):
            return True
        self.ask.without("tool_choice", "there is no tool that could be called.")
        return False

    def tool_choice(self, choice: ToolChoice) -> Any:
        custom = {tool.name for tool in self.chat.tools if isinstance(tool, Tool) and tool.custom}

        def named(name: str) -> dict[str, str]:
            return {"type": "custom" if name in custom else "function", "name": name}

        if choice.mode == "named":
            return named(choice.name or "")
        if choice.allowed is not None and choice.mode != "none":
            return {"type": "allowed_tools", "mode": choice.mode, "tools": [named(name) for name in choice.allowed]}
        return choice.mode

    def text(self, body: Body) -> dict[str, Any]:
        text: dict[str, Any] = {}
        if self.chat.output is not None:
            told = self._format(self.chat.output, body)
            if told is not None:
                text["format"] = told
        if self.chat.verbosity is not None:
            text["verbosity"] = self.chat.verbosity
        return text

    def _format(self, output: Output, body: Body) -> dict[str, Any] | None:
        match output:
            case JsonObject():
                return {"type": "json_object"}
            case JsonSchema():
                strict = output.strict
                if strict is None and output.name is None:
                    strict = True  # of who asks in words in which a schema is always obeyed
                told = {"type": "json_schema", "name": output.name or "answer", "description": output.description, "strict": strict}
                return {**{key: value for key, value in told.items() if value is not None}, "schema": output.schema}
            case Regex() | Choice() | Grammar() | StructuralTag():
                if self.own:
                    body.update(as_structured_outputs(output))
                else:
                    self.ask.without("output", "the Responses API knows JSON schemas and JSON objects alone.")
                return None
            case _:
                assert_never(output)

    def thinking(self, thinking: Thinking | None) -> dict[str, Any]:
        if thinking is None:
            return {}
        effort = thinking.effort
        if thinking.budget_tokens is not None:
            self.ask.hint("thinking.budget_tokens")
            effort = effort or ("low" if thinking.budget_tokens <= 2048 else "medium" if thinking.budget_tokens <= 8192 else "high")
        elif thinking.adaptive and effort is None:
            self.ask.hint("thinking")
        told = {"effort": effort, "summary": thinking.summary}
        return {key: value for key, value in told.items() if value is not None}


def _tool(tool: Tool, *, own: bool) -> dict[str, Any]:
    """`strict` is said to those of other dialects, which are lax unless they say otherwise; the Responses API is strict."""
    told: dict[str, Any] = {"type": "custom" if tool.custom else "function", "name": tool.name}
    if tool.description is not None:
        told["description"] = tool.description
    if tool.custom:
        if tool.format is not None:
            told["format"] = tool.format
        return told
    if tool.parameters is not None or not own:
        told["parameters"] = _NO_PARAMETERS if tool.parameters is None else tool.parameters
    if tool.strict is not None or not own:
        told["strict"] = bool(tool.strict)
    return told
