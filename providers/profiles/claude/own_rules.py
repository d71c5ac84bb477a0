"""Whether a caller's body, in the dialect that its target speaks too, holds what the target's Claude model refuses or ignores.

Such a body is adapted as a chat; any other goes as it came. What is looked at is small: names of fields, roles, and three objects.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL, Body
from providers.profiles.claude.json_schemas import fit_schema
from providers.profiles.claude.models import ClaudeProfile, find_profile

_SAMPLING = ("temperature", "top_p", "top_k")
_THINKING_BLOCK = re.compile(rb'"type"\s*:\s*"thinking"')
_SIGNATURE = re.compile(rb'"signature"\s*:\s*"[^"]')
_ALTERNATIVES = (b'"anyOf"', b'"oneOf"', b'"allOf"')
_INSTRUCTIONS = ("system", "developer")


class _Role(Struct):
    role: str = ""


class _Thinking(Struct):
    type: str | None = None
    effort: str | None = None


class _Choice(Struct):
    type: str | None = None


class _Root(Struct):
    """The alternatives at the root of an input schema, and nowhere deeper."""

    anyOf: Raw = NULL
    oneOf: Raw = NULL
    allOf: Raw = NULL


class _Function(Struct):
    parameters: _Root | None = None


class _Tool(Struct):
    """A tool of Messages, which has `input_schema`, or of Chat, which has `function`."""

    strict: bool | None = None
    input_schema: _Root | None = None
    function: _Function | None = None


class _Format(Struct):
    schema: Raw = NULL


class _OutputConfig(Struct):
    format: _Format | None = None


class _ResponseFormat(Struct):
    json_schema: _Format | None = None


_tools = msgspec.json.Decoder(list[_Tool])
_output_config = msgspec.json.Decoder(_OutputConfig | None)
_response_format = msgspec.json.Decoder(_ResponseFormat | None)
_stops = msgspec.json.Decoder(list[str] | str | None)
_roles = msgspec.json.Decoder(list[_Role])
_thinking = msgspec.json.Decoder(_Thinking | None)
_choice = msgspec.json.Decoder(_Choice | str | None)


def breaks_rules(body: Body, profile: ClaudeProfile) -> bool:
    """Returns whether a body of Messages holds what the model refuses or ignores."""
    try:
        return (
            _breaks_sampling(body, profile)
            or _breaks_thinking(body, profile)
            or _breaks_messages(body, profile)
            or ("stop_sequences" in body and _has_blank_stop(body["stop_sequences"]))
            or _has_alternatives(body)
            or _breaks_schemas(body, profile)
        )
    except DECODE_ERRORS:
        return False


def breaks_rules_in_chat(body: Body, profile: ClaudeProfile) -> bool:
    """Returns whether a body of OpenAI's Chat, for a gateway to Claude, holds what the model refuses or ignores."""
    try:
        if _breaks_sampling(body, profile) or _breaks_messages(body, profile):
            return True
        if _has_alternatives(body) or ("stop" in body and _has_blank_stop(body["stop"])) or _has_limits_in_chat(body):
            return True
        effort: Any = body.value("reasoning_effort") if "reasoning_effort" in body else None
        is_beyond = effort == "none" and profile.thinking_off == "never"
        is_beyond = is_beyond or (effort not in (None, "none", "minimal") and bool(profile.efforts) and effort not in profile.efforts)
        is_forced = "tool_choice" in body and _is_forced(body["tool_choice"])
        return is_beyond or (is_forced and (not profile.can_force_tool_call or (profile.thinking_mode == "budget" and effort is not None)))
    except DECODE_ERRORS:
        return False


def ignores_instructions(body: Body, profile: ClaudeProfile) -> bool:
    """Whether there are instructions midway that the model refuses, or does not heed."""
    messages = body.get("messages")
    if profile.mid_system == "yes" or not isinstance(messages, Raw):
        return False
    text = bytes(messages)
    if b'"system"' not in text and b'"developer"' not in text:
        return False
    try:
        return _has_later_instructions(_roles.decode(messages))
    except DECODE_ERRORS:
        return False


def leave_sampling_out(body: Body, model: str) -> list[str]:
    """Removes a temperature, `top_p` and `top_k` that no host of this Claude model takes, and returns their names. Others stay."""
    profile = find_profile(model)
    if not _breaks_sampling(body, profile):
        return []
    requested = [field for field in _SAMPLING if body.has_value(field) and (field == "top_k" or body.value(field) != 1)]
    left_out = requested if profile.sampling == "never" else ["top_p"] if {"temperature", "top_p"} <= {*requested} else []
    for field in left_out:
        del body[field]
    return left_out


def _breaks_sampling(body: Body, profile: ClaudeProfile) -> bool:
    if profile.sampling == "one":
        return body.has_value("temperature") and body.has_value("top_p")
    return profile.sampling == "never" and any(body.has_value(field) for field in _SAMPLING)


def _breaks_thinking(body: Body, profile: ClaudeProfile) -> bool:
    thinking = _thinking.decode(body["thinking"]) if "thinking" in body else None
    kind = None if thinking is None else thinking.type
    output_config = _thinking.decode(body["output_config"]) if "output_config" in body else None
    effort = None if output_config is None else output_config.effort
    match kind:
        case "disabled" | "between_tools":
            if kind != profile.thinking_off or (profile.max_effort_while_off is not None and effort in ("xhigh", "max")):
                return True
        case "enabled" if profile.thinking_mode in ("adaptive", "never"):
            return True
        case "adaptive" if profile.thinking_mode in ("budget", "never"):
            return True
        case _:
            pass
    if effort is not None and profile.efforts is not None and effort not in profile.efforts:
        return True
    is_forced = "tool_choice" in body and _is_forced(body["tool_choice"])
    return is_forced and (kind == "enabled" or not profile.can_force_tool_call)


def _is_forced(raw: Raw) -> bool:
    choice = _choice.decode(raw)
    return choice == "required" if isinstance(choice, str) else choice is not None and choice.type in ("any", "tool", "function")


def _breaks_messages(body: Body, profile: ClaudeProfile) -> bool:
    messages = body.get("messages")
    if not isinstance(messages, Raw):
        return False
    if _may_be_unsigned(bytes(messages)):
        return True
    roles = _roles.decode(messages)
    is_prefill = bool(roles) and roles[-1].role == "assistant" and not profile.supports_prefill
    return is_prefill or (profile.mid_system != "yes" and _has_later_instructions(roles))


def _has_later_instructions(roles: list[_Role]) -> bool:
    first_turn = next((index for index, each in enumerate(roles) if each.role not in _INSTRUCTIONS), len(roles))
    return any(each.role in _INSTRUCTIONS for each in roles[first_turn:])


def _may_be_unsigned(messages: bytes) -> bool:
    """Whether there are more thinking blocks than signatures. A quote within a text is escaped, so that none of these is found in one."""
    return b'"thinking"' in messages and len(_THINKING_BLOCK.findall(messages)) > len(_SIGNATURE.findall(messages))


def _has_blank_stop(raw: Raw) -> bool:
    stops = _stops.decode(raw)
    return any(not stop.strip() for stop in ([stops] if isinstance(stops, str) else stops or ()))


def _has_alternatives(body: Body) -> bool:
    """Whether the input of a tool is one of several schemas, or all of them."""
    raw = body.get("tools")
    if not isinstance(raw, Raw) or not any(keyword in bytes(raw) for keyword in _ALTERNATIVES):
        return False
    schemas = [tool.input_schema if tool.function is None else tool.function.parameters for tool in _tools.decode(raw)]
    return any(each is not None and not each.anyOf == each.oneOf == each.allOf == NULL for each in schemas)


def _breaks_schemas(body: Body, profile: ClaudeProfile) -> bool:
    """Returns whether the model refuses the schema of the answer, or takes none and a tool is strict.

    The schemas of other strict tools are the host's to refuse.
    """
    if body.has_value("output_format"):
        formats = msgspec.json.decode(body["output_format"], type=_Format)
    else:
        config = _output_config.decode(body["output_config"]) if "output_config" in body else None
        formats = None if config is None else config.format
    if formats is not None:
        return not profile.supports_schemas or not fit_schema(formats.schema, closes_objects=False).is_lossless
    raw = body.get("tools")
    if profile.supports_schemas or not isinstance(raw, Raw) or b'"strict"' not in bytes(raw):
        return False
    return any(tool.strict for tool in _tools.decode(raw))


def _has_limits_in_chat(body: Body) -> bool:
    response_format = _response_format.decode(body["response_format"]) if "response_format" in body else None
    if response_format is None or response_format.json_schema is None:
        return False
    fitted = fit_schema(response_format.json_schema.schema, closes_objects=False)
    return fitted.schema is not None and bool(fitted.dropped)
