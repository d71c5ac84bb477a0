"""Adapts a chat in OpenAI's or Anthropic's form to the rules of its model's version, which hold whoever hosts the model."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from providers.adapters.messages import drop_unsupported_parts
from providers.canonical.chat import ChatRequest, Effort, Tool, ToolChoice
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.drop_policy import DropPolicy
from providers.fields import OUTPUT_BOUND_FIELDS
from providers.profiles.chat_models import ChatModelRules, find_chat_rules
from providers.profiles.efforts import EFFORTS, nearest_effort
from providers.profiles.inline_references import inline_references
from providers.profiles.model_family import bare_name

_CHAT, _RESPONSES, _MESSAGES = "openai_chat", "openai_responses", "anthropic_messages"
# Where each dialect has the effort: the field, and the key in it.
_EFFORT_PLACES: Mapping[str, tuple[str, str | None]] = {
    _CHAT: ("reasoning_effort", None),
    _RESPONSES: ("reasoning", "effort"),
    _MESSAGES: ("output_config", "effort"),
}
_IMAGE_TYPES: Mapping[str, bytes] = {_CHAT: b'"image_url"', _MESSAGES: b'"image"'}
_NO_IMAGES = "its model {model} reads no images."
_WISHES = ("temperature", "top_p")
_FORCED_CHOICES = ("required", "any", "tool", "function", "custom")
# Kimi K2.5 and K2.6 take 0.6 while thinking is off: platform.kimi.ai/docs/api/models-overview, read 2026-11.
_TEMPERATURE_WHILE_OFF = (0.6,)
# The fields that rules are about, images in messages aside: a body with none of them is not looked at.
_RULED_FIELDS = OUTPUT_BOUND_FIELDS | {
    *("reasoning_effort", "reasoning", "output_config", "thinking", "tools", "tool_choice"),
    *("temperature", "top_p", "top_k", "n", "presence_penalty", "frequency_penalty"),
}
_decode_tools = msgspec.json.Decoder(list[dict[str, Any]]).decode


class ModelHosting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a host takes what its models differ in."""

    makes: str | None = None  # the family (ModelFamily.title) whose maker it is: what the maker's API fixes holds here
    # How its chat switches thinking off: by the effort "none", by `thinking: {type: disabled}`, by `reasoning: {enabled: false}`, by
    # `enable_thinking: false` or by `disable_reasoning: true`; None: not known.
    thinking_off: Literal["effort", "thinking", "reasoning", "enable_thinking", "disable_reasoning"] | None = None
    takes_any_effort: bool = False  # whether it finds the nearest level itself
    # the values that it takes for models whose bare_name() holds a key, instead of their own, least first
    efforts: Mapping[str, tuple[str, ...]] = {}
    always_thinking: tuple[str, ...] = ()  # parts of bare names: what thinks always there, although its maker can switch that off
    takes_sampling: bool = False  # whether it takes any temperature for every model


def adapt_to_model(body: Body, dialect: str, hosting: ModelHosting, drop_policy: DropPolicy) -> None:
    """Says otherwise what the body's model does not take, and reports it, or refuses it. Raises Unsupported."""
    if dialect not in _EFFORT_PLACES:
        return
    model = body.value("model")
    rules = find_chat_rules(model) if isinstance(model, str) else None
    if rules is None or (rules.reads_images is not False and _RULED_FIELDS.isdisjoint(body)):
        return
    _Adapter(body, dialect, hosting, drop_policy, model, rules).adapt()


def why_no_images(model: str) -> str | None:
    """Why a model reads no images; None: it does, or that is not known."""
    rules = find_chat_rules(model)
    return None if rules is None or rules.reads_images is not False else _NO_IMAGES.format(model=model)


def adapt_open_chat(chat: ChatRequest, drop_policy: DropPolicy) -> ChatRequest:
    """A chat for a dialect that is none of OpenAI's or Anthropic's, as its model takes it. Raises Unsupported.

    How thinking is asked for there is left to the dialect.
    """
    rules = find_chat_rules(chat.model)
    if rules is None:
        return chat
    if rules.inlines_references and chat.tools:
        chat = replace(chat, tools=tuple(_inline_tool(tool) if isinstance(tool, Tool) else tool for tool in chat.tools))
    is_off = rules.thinking in ("never", "on request") if chat.thinking is None else chat.thinking.effort == "none"
    choice = chat.tool_choice
    if not rules.forces_calls and not is_off and choice is not None and choice.mode in ("required", "named"):
        drop_policy.drop_or_refuse("tool_choice", f"its model {chat.model} supports only auto and none while it thinks.")
        allowed = choice.allowed if choice.name is None else (choice.name,)
        chat = replace(chat, tool_choice=ToolChoice("auto", allowed=allowed))
    for field, value in (("temperature", chat.temperature), ("top_p", chat.top_p)):
        allowed_values = rules.fixed.get(field)
        if value is not None and allowed_values is not None and value not in allowed_values:
            drop_policy.drop_missing(field, f"its model {chat.model} takes only {allowed_values[0]}.")
            chat = replace(chat, **{field: None})
    return chat


def _inline_tool(tool: Tool) -> Tool:
    if tool.parameters is None or b'"$ref"' not in bytes(tool.parameters):
        return tool
    return replace(tool, parameters=Raw(msgspec.json.encode(inline_references(msgspec.json.decode(tool.parameters)))))


class _Adapter:
    def __init__(self, body: Body, dialect: str, hosting: ModelHosting, drop_policy: DropPolicy, model: str, rules: ChatModelRules) -> None:
        self._body = body
        self._dialect = dialect
        self._hosting = hosting
        self._drop_policy = drop_policy
        self._model = model
        self._rules = rules
        self._is_maker = hosting.makes is not None and hosting.makes == rules.family
        name = bare_name(model)
        self._always_thinks = rules.thinking == "always" or any(part in name for part in hosting.always_thinking)
        self._efforts: Sequence[str] | None = next((taken for part, taken in hosting.efforts.items() if part in name), rules.efforts)
        self._is_off = rules.thinking in ("never", "on request")
        self._is_requested = False
        self._is_told_off = False

    def adapt(self) -> None:
        rules, body = self._rules, self._body
        if "thinking" in body:
            self._adapt_thinking_field()
        self._adapt_effort()
        if not rules.forces_calls and not self._is_off and "tool_choice" in body:
            self._adapt_forced_call()
        for field in rules.fixed:
            if field in body:
                self._adapt_sampling(field, rules.fixed[field])
        for field in rules.ignored:
            if field in body:
                self._leave_out(field)
        if rules.reads_images is False and self._dialect in _IMAGE_TYPES:
            drop_unsupported_parts(body, {_IMAGE_TYPES[self._dialect]: _NO_IMAGES.format(model=self._model)}, self._drop_policy)
        if rules.inlines_references and b'"$ref"' in bytes(as_raw(body.get("tools", b"null"))):
            self._inline_references()
        if rules.max_output is not None:
            for field in OUTPUT_BOUND_FIELDS & body.keys():
                if (bound := body.value(field)) is not None and bound > rules.max_output:
                    body[field] = rules.max_output  # which it does not exceed anyway

    def _adapt_thinking_field(self) -> None:
        """Puts the least effort in the place of `thinking: {type: disabled}`, for a model that always thinks."""
        thinking: Any = self._body.value("thinking")
        kind = thinking.get("type") if isinstance(thinking, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if kind != "disabled":
            self._is_requested = kind is not None
            self._is_off = self._is_off and not self._is_requested
            return
        if not self._always_thinks:
            self._is_off = self._is_told_off = True
            return
        self._drop_policy.report_dropped("thinking")
        del self._body["thinking"]
        if self._efforts and self._effort() is None:
            self._set_effort(self._efforts[0])

    def _adapt_effort(self) -> None:
        effort = self._effort()
        if effort not in EFFORTS:
            return
        if effort == "none":
            self._adapt_none()
            return
        if not self._is_told_off:
            self._is_requested, self._is_off = True, False
        accepted = self._efforts
        if accepted is None or self._hosting.takes_any_effort or effort in accepted:
            return
        if not accepted:
            self._set_effort(None)
        elif "default" in accepted:
            self._set_effort("default")
        else:
            levels = cast("tuple[Effort, ...]", tuple(each for each in accepted if each != "none"))
            self._set_effort(self._rules.renamed_efforts.get(effort) or nearest_effort(effort, levels))
        self._report_effort()

    def _adapt_none(self) -> None:
        """A model that always thinks gets its least effort; one that can stop is told so in the host's own way."""
        if self._always_thinks or self._rules.thinking == "never":
            least = next((each for each in self._efforts or () if each != "none"), None) if self._always_thinks else None
            if least is None and self._hosting.takes_any_effort and self._always_thinks:
                least = "low"
            self._set_effort(least)
            self._report_effort()
            return
        self._is_off = True
        self._switch_off()

    def _switch_off(self) -> None:
        """Switches thinking off in the host's way. In Responses the effort is all there is; Messages have `thinking`."""
        how = self._hosting.thinking_off
        if self._dialect == _RESPONSES or how is None or how == "effort":
            if self._effort() != "none":
                self._set_effort("none")
            return
        self._set_effort(None)
        if self._dialect == _MESSAGES or how == "thinking":
            self._body["thinking"] = {"type": "disabled"}
        elif how == "reasoning":
            self._body["reasoning"] = {"enabled": False}
        else:
            self._body[how] = how == "disable_reasoning"

    def _adapt_forced_call(self) -> None:
        if not _forces_call(self._body.value("tool_choice")):
            return
        if self._is_requested or self._always_thinks or self._hosting.thinking_off is None:
            self._drop_policy.drop_or_refuse("tool_choice", f"its model {self._model} supports only auto and none while it thinks.")
        else:
            self._is_off = True
            self._switch_off()

    def _adapt_sampling(self, field: str, allowed: tuple[Any, ...]) -> None:
        value = self._body.value(field)
        is_wish = field in _WISHES
        if value is None or (self._hosting.takes_sampling if is_wish else not self._is_maker):
            return
        if field == "temperature" and self._is_off:
            allowed = _TEMPERATURE_WHILE_OFF
        if value in allowed:
            return
        self._drop_policy.drop_missing(field, f"its model {self._model} takes only {allowed[0]}.")

    def _leave_out(self, field: str) -> None:
        if self._body.value(field) not in (None, 1 if field in _WISHES else 0):
            self._drop_policy.drop_missing(field, f"its model {self._model} does nothing about it.")
        else:
            del self._body[field]

    def _inline_references(self) -> None:
        """Inlines the references in the parameters of each function, wherever the dialect has them."""
        try:
            tools = _decode_tools(as_raw(self._body["tools"]))
        except DECODE_ERRORS:
            return
        for tool in tools:
            function: Any = tool.get("function", tool)
            for key in ("parameters", "input_schema"):
                if isinstance(function, dict) and key in function:
                    function[key] = inline_references(function[key])
        self._body["tools"] = tools

    def _effort(self) -> Any:
        field, key = _EFFORT_PLACES[self._dialect]
        value: Any = self._body.value(field) if field in self._body else None
        if key is None:
            return value
        return value.get(key) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def _set_effort(self, effort: str | None) -> None:
        field, key = _EFFORT_PLACES[self._dialect]
        if key is None:
            fields: Any = effort
        else:
            value: Any = self._body.value(field)
            fields = {name: each for name, each in value.items() if name != key} if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            if effort is not None:
                fields[key] = effort
        if fields:
            self._body[field] = fields
        else:
            self._body.pop(field, None)

    def _report_effort(self) -> None:
        field, key = _EFFORT_PLACES[self._dialect]
        self._drop_policy.report_dropped(field if key is None else f"{field}.{key}")


def _forces_call(choice: Any) -> bool:
    kind = cast("dict[str, Any]", choice).get("type") if isinstance(choice, dict) else choice
    if kind == "allowed_tools":
        allowed = cast("dict[str, Any]", choice).get("allowed_tools", choice)
        kind = cast("dict[str, Any]", allowed).get("mode") if isinstance(allowed, dict) else None
    return kind in _FORCED_CHOICES
