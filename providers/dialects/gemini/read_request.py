"""A request to generateContent as a canonical chat."""

from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, Effort, HostTool, Message, Thinking, Tool, ToolChoice
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.canonical.tool_schemas import type_as_object
from providers.dialects.gemini.opaque_parts import NAME
from providers.dialects.gemini.read_contents import read_contents, read_instructions
from providers.host_tools import mark_offered_search
from providers.structured_output.locate_format import locate_format
from providers.structured_output.openapi_schema import read_openapi_schema

_Object = dict[str, Raw]
_any = msgspec.json.Decoder()
_object = msgspec.json.Decoder(_Object)
_objects = msgspec.json.Decoder(list[_Object])
_WEB_SEARCH = "web_search"
_EFFORTS = frozenset(get_args(Effort))
# Fields that the gateway handles itself.
_GATEWAY_FIELDS = frozenset({"stream", "episode_id", "tensorzero::episode_id", "tensorzero::tags"})
# Fields of generationConfig that locate_format() reads.
_FORMAT_FIELDS = ("responseMimeType", "responseSchema", "responseJsonSchema")
_TIERS: Mapping[str, str] = {"STANDARD": "default", "FLEX": "flex", "PRIORITY": "priority"}


def read_request(body: Body) -> ChatRequest:
    """Raises InvalidRequest for a body that parse_request() accepted and that still cannot be read."""
    fields = {key: as_raw(value) for key, value in body.items() if key not in _GATEWAY_FIELDS and body.has_value(key)}
    try:
        return _RequestReader(fields, body).read()
    except DECODE_ERRORS as decode_error:
        raise InvalidRequest(f"The body cannot be understood: {decode_error}.") from None


class _RequestReader:
    """Reads one request. Each field that is read is removed; the remaining ones are `extra`, in objects by path (generationConfig.x)."""

    def __init__(self, remaining: _Object, body: Body) -> None:
        self._remaining = remaining
        self._body = body
        self._config = self._take_object("generationConfig")

    def read(self) -> ChatRequest:
        located = locate_format(NAME, self._body)
        for field in _FORMAT_FIELDS:
            self._config.pop(field, None)
        logprobs = self._take_config("responseLogprobs")
        thinking = self._thinking()
        instructions = self._remaining.pop("systemInstruction", None)
        messages = [Message(each.role, tuple(each.parts)) for each in read_contents(self._remaining.pop("contents"))]
        top_k = self._take_config("topK")
        chat_fields: dict[str, Any] = {
            "tools": self._tools(),
            "tool_choice": self._tool_choice(),
            "max_tokens": self._take_config("maxOutputTokens"),
            "temperature": self._take_config("temperature"),
            "top_p": self._take_config("topP"),
            "top_k": None if top_k is None else int(top_k),
            "seed": self._take_config("seed"),
            "n": self._take_config("candidateCount"),
            "stop": tuple(self._take_config("stopSequences") or ()),
            "frequency_penalty": self._take_config("frequencyPenalty"),
            "presence_penalty": self._take_config("presencePenalty"),
            "top_logprobs": self._take_config("logprobs"),
            "metadata": self._take("labels") or None,
            "service_tier": self._tier(),
            "store": self._take("store"),
            "model": self._take("model"),
        }
        self._remaining.update({f"generationConfig.{key}": value for key, value in self._config.items()})
        extra = {key: value for key, value in self._remaining.items() if value != NULL}
        return ChatRequest(
            origin=NAME,
            messages=(*(() if instructions is None else read_instructions(instructions)), *messages),
            output=None if located is None else located.output,
            thinking=thinking,
            logprobs=logprobs,
            extra=extra,
            **chat_fields,
        )

    def _take(self, key: str) -> Any:
        return _any.decode(self._remaining.pop(key, NULL))

    def _take_config(self, key: str) -> Any:
        return _any.decode(self._config.pop(key, NULL))

    def _take_object(self, key: str) -> _Object:
        raw = self._remaining.pop(key, NULL)
        return {} if raw == NULL else {name: value for name, value in _object.decode(raw).items() if value != NULL}

    def _tier(self) -> str | None:
        tier: str | None = self._take("serviceTier")
        return None if tier is None else _TIERS.get(tier.upper(), tier)

    def _thinking(self) -> Thinking | None:
        """How much to think. Without `includeThoughts` the caller gets no thoughts, whoever wrote them."""
        if "thinkingConfig" not in self._config:
            return None
        fields = _object.decode(self._config.pop("thinkingConfig"))
        includes = _any.decode(fields.pop("includeThoughts", NULL))
        budget: int | None = _any.decode(fields.pop("thinkingBudget", NULL))
        level: str | None = _any.decode(fields.pop("thinkingLevel", NULL))
        self._config.update({f"thinkingConfig.{key}": value for key, value in fields.items()})
        summary = "auto" if includes else None
        effort = None if level is None or level == "THINKING_LEVEL_UNSPECIFIED" else level.lower()
        if effort is not None and effort not in _EFFORTS:
            path = "generationConfig.thinkingConfig.thinkingLevel"
            raise InvalidRequest(f"`{path}` may be {', '.join(get_args(Effort)).upper()}, not {level!r:.40}.", param=path)
        if budget == 0 and effort is None:
            return Thinking("none")
        return Thinking(cast("Effort | None", effort), budget if budget and budget > 0 else None, budget == -1, summary)

    def _tools(self) -> tuple[Tool | HostTool, ...]:
        tools: list[Tool | HostTool] = []
        for index, fields in enumerate(_objects.decode(self._remaining.pop("tools", Raw(b"[]")))):
            for key, value in fields.items():
                if key == "functionDeclarations" and value != NULL:
                    path = f"tools[{index}].functionDeclarations"
                    tools += [_read_declaration(each, f"{path}[{at}]") for at, each in enumerate(_objects.decode(value))]
                elif value != NULL:
                    tools.append(_read_host_tool(key, value))
        return mark_offered_search(tools)

    def _tool_choice(self) -> ToolChoice | None:
        """The choice. VALIDATED is AUTO with calls that obey their schemas, which is what every target tries to do."""
        fields = self._take_object("toolConfig")
        config = _object.decode(fields.pop("functionCallingConfig", Raw(b"{}")))
        self._remaining.update({f"toolConfig.{key}": value for key, value in fields.items()})
        mode = _any.decode(config.pop("mode", NULL))
        names: list[str] = _any.decode(config.pop("allowedFunctionNames", NULL)) or []
        self._remaining.update({f"toolConfig.functionCallingConfig.{key}": value for key, value in config.items()})
        allowed = tuple(names) or None
        match mode:
            case "NONE":
                return ToolChoice("none")
            case "ANY":
                return ToolChoice("named", names[0]) if len(names) == 1 else ToolChoice("required", allowed=allowed)
            case "VALIDATED":
                self._remaining["toolConfig.functionCallingConfig"] = Raw(b'{"mode":"VALIDATED"}')
                return ToolChoice("auto", allowed=allowed)
            case "AUTO":
                return ToolChoice("auto", allowed=allowed)
            case _:
                return None


def _read_declaration(fields: _Object, path: str) -> Tool:
    name, description = _any.decode(fields.pop("name")), _any.decode(fields.pop("description", NULL))
    schema, json_schema = fields.pop("parameters", NULL), fields.pop("parametersJsonSchema", NULL)
    parameters: Raw | None = None
    if json_schema != NULL:
        parameters = json_schema
    elif schema != NULL:
        parameters = read_openapi_schema(schema, f"{path}.parameters")
    extra = {key: value for key, value in fields.items() if value != NULL}
    return Tool(name, description, None if parameters is None else type_as_object(parameters), extra=extra)


def _read_host_tool(key: str, value: Raw) -> HostTool:
    """A tool that Google runs. A plain search is what every API has under that name."""
    if key == "googleSearch" and not _object.decode(value):
        return HostTool(NAME, _WEB_SEARCH, Raw(b'{"type":"web_search"}'))
    return HostTool(NAME, key, Raw(msgspec.json.encode({key: value})))
