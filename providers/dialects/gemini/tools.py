"""Tools as functionDeclarations, and the choice among them as functionCallingConfig.

Sources: https://ai.google.dev/api/caching#FunctionDeclaration, https://ai.google.dev/gemini-api/docs/function-calling, read 2026-11.
"""

import re
from typing import Any

import msgspec
from msgspec import Raw

from providers.canonical.chat import ChatRequest, HostTool, Tool
from providers.canonical.raw_json import DECODE_ERRORS
from providers.dialects.gemini.opaque_parts import NAME
from providers.dialects.gemini.output_format import unenforced_keyword
from providers.drop_policy import DropPolicy
from providers.host_tools import is_web_search, leave_out_host_tool
from providers.profiles.gemini import GeminiProfile
from providers.unsupported import drop_part_fields

_FUNCTION_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_object = msgspec.json.Decoder(dict[str, Raw])

# The extra field of a chat in which a caller of Gemini asks for calls that obey their schemas, which is a hint elsewhere.
CALLING_CONFIG = "toolConfig.functionCallingConfig"


def write_tools(chat: ChatRequest, profile: GeminiProfile, drop_policy: DropPolicy) -> dict[str, Any]:
    """The fields `tools` and `toolConfig`, where needed. parametersJsonSchema takes any schema, unlike `parameters`."""
    choice = chat.tool_choice
    mode = "auto" if choice is None else choice.mode
    allowed = None if choice is None or choice.allowed is None else frozenset(choice.allowed)
    functions: list[dict[str, Any]] = []
    hosted: list[dict[str, Any]] = []
    strict = False
    for index, tool in enumerate(chat.tools):
        path = f"tools[{index}]"
        if isinstance(tool, HostTool):
            hosted += _host_tool(tool, path, drop_policy)
        elif allowed is None or mode == "required" or tool.name in allowed:
            functions += _function(tool, path, drop_policy, is_native=chat.origin == NAME)
            strict = strict or _is_strict(tool, path, drop_policy)
    if hosted and functions and not profile.tools_with_schema:
        for index, tool in enumerate(chat.tools):
            if isinstance(tool, HostTool):
                why = "before Gemini 3 it takes either functions or its own search, not both."
                leave_out_host_tool(tool, f"tools[{index}]", why, drop_policy)
        hosted = []
    fields: dict[str, Any] = {}
    tools = [*([{"functionDeclarations": functions}] if functions else []), *hosted]
    if tools:
        fields["tools"] = tools
    config: dict[str, Any] = {}
    calling_config = _function_calling(chat, mode, functions, drop_policy, strict=strict)
    if calling_config:
        config["functionCallingConfig"] = calling_config
    if hosted and functions:
        config["includeServerSideToolInvocations"] = True
    return {**fields, "toolConfig": config} if config else fields


def _function_calling(
    chat: ChatRequest, mode: str, functions: list[dict[str, Any]], drop_policy: DropPolicy, *, strict: bool
) -> dict[str, Any] | None:
    """Mode VALIDATED is AUTO with calls that obey their schemas; those of ANY always do."""
    choice = chat.tool_choice
    if not functions:
        if mode in ("required", "named"):
            drop_policy.drop_or_refuse("tool_choice", "there is no tool to call.")
        return None
    if mode == "none":
        return {"mode": "NONE"}
    if chat.parallel_calls is False:
        drop_policy.drop_or_refuse("parallel_calls", "it cannot limit a model to one call.")
    if choice is not None and mode == "named":
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    if choice is not None and mode == "required":
        return {"mode": "ANY", **({} if choice.allowed is None else {"allowedFunctionNames": list(choice.allowed)})}
    if strict or CALLING_CONFIG in chat.extra:
        return {"mode": "VALIDATED"}
    return {"mode": "AUTO"} if chat.origin == NAME and choice is not None else None


def _function(tool: Tool, path: str, drop_policy: DropPolicy, *, is_native: bool) -> list[dict[str, Any]]:
    if tool.custom:
        drop_policy.drop_or_refuse(path, "its tools take JSON, not free text.")
        return []
    if not _FUNCTION_NAME.fullmatch(tool.name):
        drop_policy.drop_or_refuse(
            path, "names of its tools begin with a letter or _ and have at most 128 letters, digits, _, dots, colons and dashes."
        )
        return []
    declaration: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        declaration["description"] = tool.description
    if tool.parameters is not None:
        declaration["parametersJsonSchema"] = tool.parameters
    if is_native:
        declaration.update(tool.extra)
    else:
        drop_part_fields(tool.extra, path, drop_policy)
    return [declaration]


def _is_strict(tool: Tool, path: str, drop_policy: DropPolicy) -> bool:
    if not tool.strict or tool.custom:
        return False
    keyword = None if tool.parameters is None else unenforced_keyword(tool.parameters)
    if keyword is not None:
        drop_policy.drop_or_refuse(f"{path}.strict", f"it does not enforce `{keyword}` of a schema.")
    return True


def _host_tool(tool: HostTool, path: str, drop_policy: DropPolicy) -> list[dict[str, Any]]:
    """A web search of any API becomes Google's, if it has no options. One with options that is optional is left out."""
    if tool.origin == NAME and not is_web_search(tool.kind):
        return [_object.decode(tool.raw)]
    if is_web_search(tool.kind):
        try:
            extra_keys = sorted(_object.decode(tool.raw).keys() - {"type", "name"})
        except DECODE_ERRORS:
            extra_keys = []
        if not extra_keys:
            return [{"googleSearch": {}}]
        if tool.optional:
            drop_policy.drop_hint(path)
            return []
        drop_policy.drop_or_refuse(f"{path}.{extra_keys[0]}", "its web search has no such option.")
        return [{"googleSearch": {}}]
    leave_out_host_tool(tool, path, f"only another API has the tool `{tool.kind}`, which its host runs itself.", drop_policy)
    return []
