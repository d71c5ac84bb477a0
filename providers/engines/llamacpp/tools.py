"""Tools as llama.cpp's servers take them: functions alone, with patterns that they obey, and a named one as the only one."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.adapters.unsupported_fields import UnsupportedFields
from providers.canonical.errors import InvalidRequest
from providers.canonical.extra_fields import as_raw
from providers.canonical.raw_json import DECODE_ERRORS, Body
from providers.engines.llamacpp.schemas import SchemaConverter, convert_schema
from providers.structured_output import Constraint

_decode_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


def adapt_strict_tools(
    body: Body, unsupported_fields: UnsupportedFields, constraint: Constraint | None, converter: SchemaConverter
) -> None:
    """`strict` of tools whose schemas are not obeyed in full. Raises Unsupported."""
    if constraint is None or not body.value("tools"):
        return
    for path, schema in constraint.strict_tools:
        if not convert_schema(schema, converter).is_enforced:
            unsupported_fields.drop_path_or_refuse(
                path.rpartition(".")[0] + ".strict", "of this schema it holds the arguments of a call to a part alone."
            )


def adapt_tools(body: Body, unsupported_fields: UnsupportedFields, converter: SchemaConverter) -> list[str]:
    """A choice that is an object is `auto` to llama.cpp, without a word: a named tool is asked for by sending no other, and `required`.

    Gives the names of those that are sent. Raises Malformed for a call demanded of a tool that is not there: they would pass over it.
    """
    mode, names = read_tool_choice(body.value("tool_choice"))
    if not body.has_value("tools"):
        if mode == "required":
            raise InvalidRequest("`tool_choice` demands a call, and there are no `tools`.", param="tool_choice")
        return []
    try:
        tools = _decode_tools(as_raw(body["tools"]))
    except DECODE_ERRORS:
        return []
    functions = [tool for index, tool in enumerate(tools) if _is_function(tool, index, unsupported_fields)]
    if names is not None:
        missing = names - {_function_name(tool) for tool in functions}
        if missing:
            raise InvalidRequest(
                f"`tool_choice` names {', '.join(sorted(map(repr, missing)))}, of which `tools` has none.", param="tool_choice"
            )
        functions = [tool for tool in functions if _function_name(tool) in names]
        body["tool_choice"] = mode
    body["tools"] = [_convert_patterns(tool, converter) for tool in functions]
    return [_function_name(tool) for tool in functions]


def read_tool_choice(choice: Any) -> tuple[str, frozenset[str] | None]:
    """What is asked of the tools, and of which; None: of all of them. Shapes of chat: https://platform.openai.com/docs, read 2026-11."""
    match choice:
        case {"function": {"name": str(name)}}:
            return "required", frozenset({name})
        case {"allowed_tools": {"mode": str(mode), "tools": [*tools]}}:
            return mode, frozenset(tool["function"]["name"] for tool in tools if "function" in tool)
        case str(mode):
            return mode, None
        case _:
            return "auto", None


def _is_function(tool: dict[str, Raw], index: int, unsupported_fields: UnsupportedFields) -> bool:
    if "function" in tool:
        return True
    unsupported_fields.drop_path_or_refuse(f"tools[{index}]", "it knows functions alone.")
    return False


def _function_name(tool: dict[str, Raw]) -> str:
    return msgspec.json.decode(_decode_object(tool["function"])["name"])


def _convert_patterns(tool: dict[str, Raw], converter: SchemaConverter) -> dict[str, Any]:
    if b'"pattern"' not in bytes(tool["function"]):
        return dict(tool)
    function = _decode_object(tool["function"])
    return {**tool, "function": {**function, "parameters": convert_schema(function["parameters"], converter).schema}}
