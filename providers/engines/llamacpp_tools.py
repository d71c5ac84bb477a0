"""Tools as llama.cpp's servers take them: functions alone, with patterns that they obey, and a named one as the only one."""

from typing import Any

import msgspec
from msgspec import Raw

from providers.engines.llamacpp_schemas import Converter, write_schema
from providers.errors import Malformed
from providers.guided import Constraint
from providers.losses import Losses
from providers.rest import as_raw
from providers.wire import UNREADABLE, Body

_tools = msgspec.json.Decoder(list[dict[str, Raw]]).decode
_object = msgspec.json.Decoder(dict[str, Raw]).decode


def bend_strict(body: Body, losses: Losses, constraint: Constraint | None, converter: Converter) -> None:
    """`strict` of tools whose schemas are not obeyed in full. Raises Unsupported."""
    if constraint is None or not body.value("tools"):
        return
    for path, schema in constraint.tools:
        if not write_schema(schema, converter).obeyed:
            losses.part_with(path.rpartition(".")[0] + ".strict", "of this schema it holds the arguments of a call to a part alone.")


def bend_tools(body: Body, losses: Losses, converter: Converter) -> list[str]:
    """A choice that is an object is `auto` to llama.cpp, without a word: a named tool is asked for by sending no other, and `required`.

    Gives the names of those that are sent. Raises Malformed for a call demanded of a tool that is not there: they would pass over it.
    """
    mode, names = read_choice(body.value("tool_choice"))
    if not body.said("tools"):
        if mode == "required":
            raise Malformed("`tool_choice` demands a call, and there are no `tools`.", param="tool_choice")
        return []
    try:
        tools = _tools(as_raw(body["tools"]))
    except UNREADABLE:
        return []
    kept = [tool for at, tool in enumerate(tools) if _is_function(tool, at, losses)]
    if names is not None:
        missing = names - {_name(tool) for tool in kept}
        if missing:
            raise Malformed(f"`tool_choice` names {', '.join(sorted(map(repr, missing)))}, of which `tools` has none.", param="tool_choice")
        kept = [tool for tool in kept if _name(tool) in names]
        body["tool_choice"] = mode
    body["tools"] = [_with_patterns(tool, converter) for tool in kept]
    return [_name(tool) for tool in kept]


def read_choice(said: Any) -> tuple[str, frozenset[str] | None]:
    """What is asked of the tools, and of which; None: of all of them. Shapes of chat: https://platform.openai.com/docs, read 2026-11."""
    match said:
        case {"function": {"name": str(name)}}:
            return "required", frozenset({name})
        case {"allowed_tools": {"mode": str(mode), "tools": [*tools]}}:
            return mode, frozenset(tool["function"]["name"] for tool in tools if "function" in tool)
        case str(mode):
            return mode, None
        case _:
            return "auto", None


def _is_function(tool: dict[str, Raw], at: int, losses: Losses) -> bool:
    if "function" in tool:
        return True
    losses.part_with(f"tools[{at}]", "it knows functions alone.")
    return False


def _name(tool: dict[str, Raw]) -> str:
    return msgspec.json.decode(_object(tool["function"])["name"])


def _with_patterns(tool: dict[str, Raw], converter: Converter) -> dict[str, Any]:
    if b'"pattern"' not in bytes(tool["function"]):
        return dict(tool)
    function = _object(tool["function"])
    return {**tool, "function": {**function, "parameters": write_schema(function["parameters"], converter).schema}}
