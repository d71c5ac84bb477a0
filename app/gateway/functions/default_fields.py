"""Default fields: what a function and a variant set in a request, in each dialect, unless the caller set it.

They are parameters, tools and the output format.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from app.domain.functions import FunctionConfig, FunctionTool, VariantConfig
from providers.canonical.raw_json import Body, merge_object
from providers.structured_output import CONSTRAINT_FIELDS

CHAT, RESPONSES, MESSAGES, COUNT = "openai_chat", "openai_responses", "anthropic_messages", "anthropic_count_tokens"
INFERENCE, GOOGLE = "tensorzero_inference", "gemini"
DIALECTS_OF_FUNCTIONS = (CHAT, RESPONSES, MESSAGES, COUNT, INFERENCE, GOOGLE)

# OpenAI's names of parameters in chats to those of other dialects, where there is one. Others keep their name as unknown fields:
# what serves the request takes them, or drops or refuses them by that name.
_PARAMS_OF_RESPONSES: Mapping[str, tuple[str, str | None]] = {
    "max_tokens": ("max_output_tokens", None),
    "max_completion_tokens": ("max_output_tokens", None),
    "reasoning_effort": ("reasoning", "effort"),
    "verbosity": ("text", "verbosity"),
}
_PARAMS_OF_MESSAGES: Mapping[str, tuple[str, str | None]] = {
    "max_completion_tokens": ("max_tokens", None),
    "stop": ("stop_sequences", None),
    "reasoning_effort": ("output_config", "effort"),
}
_PARAMS_OF_INFERENCE: Mapping[str, tuple[str, str | None]] = {
    "max_completion_tokens": ("max_tokens", None),
    "stop": ("stop_sequences", None),
}
_CONFIG = "generationConfig"
_PARAMS_OF_GOOGLE: Mapping[str, tuple[str, str | None]] = {
    "max_tokens": (_CONFIG, "maxOutputTokens"),
    "max_completion_tokens": (_CONFIG, "maxOutputTokens"),
    "temperature": (_CONFIG, "temperature"),
    "top_p": (_CONFIG, "topP"),
    "top_k": (_CONFIG, "topK"),
    "seed": (_CONFIG, "seed"),
    "n": (_CONFIG, "candidateCount"),
    "stop": (_CONFIG, "stopSequences"),
    "frequency_penalty": (_CONFIG, "frequencyPenalty"),
    "presence_penalty": (_CONFIG, "presencePenalty"),
    "reasoning_effort": (_CONFIG, "thinkingConfig"),
}
_OTHER_NAMES: Mapping[str, tuple[str, ...]] = {"max_tokens": ("max_completion_tokens",), "max_completion_tokens": ("max_tokens",)}
_SCHEMA_NAME = "response"


class DefaultField(Struct, frozen=True):
    """A value that the function or variant sets where the request does not."""

    name: str
    value: Raw
    unless: tuple[str, ...] = ()  # fields of the caller beside which it is left out
    inside: str | None = None  # the key in the object `name`; None: the whole field
    is_output: bool = False  # whether a format of the caller that only says "text" counts as none
    unless_inside: tuple[str, ...] = ()  # as `unless`, of keys in the object `name`

    def set_in(self, body: Body) -> None:
        if any([body.has_value(each) for each in self.unless]):
            return
        present = body.get(self.name) if body.has_value(self.name) else None
        if present is None:
            body[self.name] = self.value if self.inside is None else {self.inside: self.value}
        elif self.inside is None:
            if self.is_output and _is_text(body.value(self.name)):
                body[self.name] = self.value
        else:
            fields = cast("dict[str, Any]", body.value(self.name))
            if any([fields.get(each) is not None for each in self.unless_inside]):
                return
            inside = fields.get(self.inside)
            if inside is None or (self.is_output and _is_text(inside)):
                raw = present if isinstance(present, Raw) else Raw(msgspec.json.encode(present))
                body[self.name] = merge_object(raw, {self.inside: self.value})


def default_fields(function: FunctionConfig, variant: VariantConfig) -> Mapping[str, tuple[DefaultField, ...]]:
    return {
        CHAT: (*_params(variant, {}), *_chat_tools(function), *_output(function, "response_format", None)),
        RESPONSES: (*_params(variant, _PARAMS_OF_RESPONSES), *_responses_tools(function), *_output(function, "text", "format")),
        MESSAGES: (*_params(variant, _PARAMS_OF_MESSAGES), *_messages_tools(function), *_output(function, "output_config", "format")),
        COUNT: (*_messages_tools(function),),
        INFERENCE: (*_params(variant, _PARAMS_OF_INFERENCE), *_inference_tools(function)),
        GOOGLE: (*_params(variant, _PARAMS_OF_GOOGLE), *_google_tools(function), *_google_output(function)),
    }


def _params(variant: VariantConfig, names: Mapping[str, tuple[str, str | None]]) -> Iterator[DefaultField]:
    for param, value in variant.params.items():
        name, inside = names.get(param, (param, None))
        if (name == "stop_sequences" or inside == "stopSequences") and isinstance(value, str):
            value = [value]
        if inside == "thinkingConfig":
            value = {"thinkingBudget": 0} if value == "none" else {"thinkingLevel": str(value).upper()}
        yield DefaultField(name, _raw(value), () if inside else _OTHER_NAMES.get(name, ()), inside)


def _chat_tools(function: FunctionConfig) -> Iterator[DefaultField]:
    tools = [{"type": "function", "function": {**_named(tool), "parameters": tool.parameters}} for tool in function.tools]
    choice = function.tool_choice
    named: Any = {"type": "function", "function": {"name": choice}}
    yield from _tools(function, tools, named if choice in _names(function) else choice)


def _responses_tools(function: FunctionConfig) -> Iterator[DefaultField]:
    # `strict` is true there unless a request says otherwise.
    tools = [{"type": "function", "strict": False, **tool} for tool in written_tools(function)]
    choice = function.tool_choice
    yield from _tools(function, tools, {"type": "function", "name": choice} if choice in _names(function) else choice)


def _tools(function: FunctionConfig, tools: Sequence[Any], choice: Any) -> Iterator[DefaultField]:
    """The choice comes first: it is the caller's with tools of the caller's."""
    own = ("tools", "functions")
    if choice is not None:
        yield DefaultField("tool_choice", _raw(choice), (*own, "function_call"))
    if function.parallel_tool_calls is not None:
        yield DefaultField("parallel_tool_calls", _raw(function.parallel_tool_calls), own)
    if tools:
        yield DefaultField("tools", _raw(tools), own)


def _messages_tools(function: FunctionConfig) -> Iterator[DefaultField]:
    choice, parallel = function.tool_choice, function.parallel_tool_calls
    if choice is not None or parallel is False:
        kinds = {None: "auto", "auto": "auto", "required": "any", "none": "none"}
        written: dict[str, Any] = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
        if parallel is False and written["type"] != "none":
            written["disable_parallel_tool_use"] = True
        yield DefaultField("tool_choice", _raw(written), ("tools",))
    if function.tools:
        tools = [{**_named(tool), "input_schema": {"type": "object", **tool.parameters}} for tool in function.tools]
        yield DefaultField("tools", _raw(tools), ("tools",))


def _google_tools(function: FunctionConfig) -> Iterator[DefaultField]:
    """The choice and the tools. Google's API cannot say that there is to be one call at a time."""
    choice = function.tool_choice
    if choice is not None:
        modes: Mapping[str, dict[str, Any]] = {"auto": {"mode": "AUTO"}, "required": {"mode": "ANY"}, "none": {"mode": "NONE"}}
        calling = modes.get(choice) or {"mode": "ANY", "allowedFunctionNames": [choice]}
        yield DefaultField("toolConfig", _raw({"functionCallingConfig": calling}), ("tools",))
    if function.tools:
        declared = [
            {name: value for name, value in _named(tool).items() if name != "strict"} | {"parametersJsonSchema": tool.parameters}
            for tool in function.tools
        ]
        yield DefaultField("tools", _raw([{"functionDeclarations": declared}]), ("tools",))


def _google_output(function: FunctionConfig) -> Iterator[DefaultField]:
    if function.output_schema is not None:
        schema, media_type = _raw(function.output_schema), _raw("application/json")
        yield DefaultField(_CONFIG, schema, inside="responseJsonSchema", unless_inside=("responseSchema",))
        yield DefaultField(_CONFIG, media_type, inside="responseMimeType", is_output=True)


def _inference_tools(function: FunctionConfig) -> Iterator[DefaultField]:
    """The choice and the format; the tools themselves are offered beside those of the request."""
    choice = function.tool_choice
    if choice is not None:
        yield DefaultField("tool_choice", _raw({"specific": choice} if choice in _names(function) else choice))
    if function.parallel_tool_calls is not None:
        yield DefaultField("parallel_tool_calls", _raw(function.parallel_tool_calls))
    if function.output_schema is not None:
        yield DefaultField("output_schema", _raw(function.output_schema))


def written_tools(function: FunctionConfig) -> list[dict[str, Any]]:
    """The tools as Responses and TensorZero's API write them, but for their type."""
    return [{**_named(tool), "parameters": tool.parameters} for tool in function.tools]


def _named(tool: FunctionTool) -> dict[str, Any]:
    return {name: value for name in ("name", "description", "strict") if (value := getattr(tool, name)) is not None}


def _names(function: FunctionConfig) -> set[str]:
    return {tool.name for tool in function.tools}


def _output(function: FunctionConfig, name: str, inside: str | None) -> Iterator[DefaultField]:
    schema = function.output_schema
    if schema is None:
        return
    # OpenAI refuses `strict` for schemas that leave something open; without it the gateway checks the answer.
    strict = {"strict": True} if _is_strict(schema) else {}
    named = {"name": _SCHEMA_NAME, "schema": schema, **strict}
    unless = tuple(sorted(CONSTRAINT_FIELDS - {name}))
    match name:
        case "response_format":
            written: Any = {"type": "json_schema", "json_schema": named}
        case "text":
            written = {"type": "json_schema", **named}
        case _:
            written, unless = {"type": "json_schema", "schema": schema}, (*unless, "output_format")
    yield DefaultField(name, _raw(written), unless, inside, is_output=True)


def _is_strict(schema: Any) -> bool:
    """Whether every object in it is closed and requires all of its properties."""
    match schema:
        case dict():
            fields = cast("dict[str, Any]", schema)
            properties = fields.get("properties")
            if fields.get("type") == "object" or isinstance(properties, dict):
                names = set(cast("dict[str, Any]", properties or {}))
                if fields.get("additionalProperties") is not False or not names <= set(fields.get("required") or ()):
                    return False
            return all(map(_is_strict, fields.values()))
        case list():
            return all(map(_is_strict, cast("list[Any]", schema)))
        case _:
            return True


def _is_text(output_format: Any) -> bool:
    return output_format == "text/plain" or (
        isinstance(output_format, dict) and cast("dict[str, Any]", output_format).get("type") == "text"
    )


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))
