"""Tools, adapted to llama.cpp's servers: functions only, with patterns that they enforce, and a named one as the only one."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.drop_policy import DropPolicy
from providers.engines.llamacpp.schemas import SchemaConverter, convert_schema
from providers.structured_output import Constraint

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def adapt_strict_tools(body: Body, drop_policy: DropPolicy, constraint: Constraint | None, converter: SchemaConverter) -> None:
    """Drops or refuses `strict` of tools whose schemas are not fully enforced. Raises Unsupported."""
    if constraint is None or not body.value("tools"):
        return
    for path, schema in constraint.strict_tools:
        if not convert_schema(schema, converter).is_enforced:
            drop_policy.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "it enforces only a part of this schema on the arguments of a call."
            )


def adapt_tools(body: Body, drop_policy: DropPolicy, converter: SchemaConverter) -> list[str]:
    """Adapts tools and the choice among them, and returns the names of the tools that are sent.

    llama.cpp takes a choice that is an object for `auto`, without an error: a named tool is sent as the only one, with `required`. Raises
    InvalidRequest where a call of a missing tool is demanded, which the servers would ignore.
    """
    mode, names = read_tool_choice(body.value("tool_choice"))
    if not body.has_value("tools"):
        if mode == "required":
            raise InvalidRequest("`tool_choice` demands a call, but there are no `tools`.", param="tool_choice")
        return []
    try:
        tools = _decode_tools(as_raw(body["tools"]))
    except DECODE_ERRORS:
        return []
    functions = [tool for index, tool in enumerate(tools) if _is_function(tool, index, drop_policy)]
    if names is not None:
        missing = names - {_function_name(tool) for tool in functions}
        if missing:
            raise InvalidRequest(
                f"`tool_choice` names {', '.join(sorted(map(repr, missing)))}, which `tools` does not have.", param="tool_choice"
            )
        functions = [tool for tool in functions if _function_name(tool) in names]
        body["tool_choice"] = mode
    body["tools"] = [_convert_patterns(tool, converter) for tool in functions]
    return [_function_name(tool) for tool in functions]


def read_tool_choice(choice: Any) -> tuple[str, frozenset[str] | None]:
    """The mode of a chat's `tool_choice`, and the names of the tools that it allows; None: all of them.

    Source: https://platform.openai.com/docs/api-reference/chat/create, read 2026-11.
    """
    match choice:
        case {"function": {"name": str(name)}}:
            return "required", frozenset({name})
        case {"allowed_tools": {"mode": str(mode), "tools": [*tools]}}:
            return mode, frozenset(tool["function"]["name"] for tool in tools if "function" in tool)
        case str(mode):
            return mode, None
        case _:
            return "auto", None


def _is_function(tool: dict[str, Raw], index: int, drop_policy: DropPolicy) -> bool:
    if "function" in tool:
        return True
    drop_policy.drop_path_or_refuse(f"tools[{index}]", "it supports only functions.")
    return False


def _function_name(tool: dict[str, Raw]) -> str:
    return msgspec.json.decode(_decode_object(tool["function"])["name"])


def _convert_patterns(tool: dict[str, Raw], converter: SchemaConverter) -> dict[str, Any]:
    if b'"pattern"' not in bytes(tool["function"]):
        return dict(tool)
    function = _decode_object(tool["function"])
    return {**tool, "function": {**function, "parameters": convert_schema(function["parameters"], converter).schema}}
