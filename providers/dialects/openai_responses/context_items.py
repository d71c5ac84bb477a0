"""Items of the input that say what holds from their place on, and are no messages: further tools, and settings of the response.

    additional_tools       tools beside those of `tools`. For most models Codex sends all of its tools so, and no `tools`
    tool_search_output     the tools that a search has found, which may be called from then on
    configuration_update   another effort, or another format of the text

No other API has them: there the tools are tools of the request, and the last setting is that of the request.
Source: openai-python 3, types/responses/response_input_item_param.py; requests of the Codex CLI 0.171, read 2026-11.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS, NULL
from providers.dialects.openai_responses.input_items import ContinuedInput, has_context_items, list_input_items
from providers.dialects.openai_responses.raw_fields import RawObject

# Items that hold tools.
_TOOL_ITEM_TYPES = frozenset({"additional_tools", "tool_search_output"})


class PlacedTool(Struct, frozen=True):
    """A tool of the request, and the caller's path of it."""

    path: str
    raw: Raw


class Settings(Struct, frozen=True):
    """The settings in force at the end of the input. None: no item sets it."""

    effort: Raw | None = None
    text: Raw | None = None
    text_path: str = ""  # the caller's path of `text`


NO_SETTINGS = Settings()


class _Item(Struct):
    type: str | None = None
    tools: Raw = NULL
    reasoning: Raw = NULL
    text: Raw = NULL


_item_decoder = msgspec.json.Decoder(_Item)
_list_decoder = msgspec.json.Decoder(list[Raw])
_object_decoder = msgspec.json.Decoder(RawObject)


def list_tools(body: Mapping[str, Any]) -> list[PlacedTool]:
    """The tools of the request, first those of `tools`. Raises DECODE_ERRORS."""
    raw_tools = body.get("tools", NULL)
    tools = [] if not isinstance(raw_tools, Raw) or raw_tools == NULL else _list_decoder.decode(raw_tools)
    placed = [PlacedTool(f"tools[{at}]", raw) for at, raw in enumerate(tools)]
    if has_context_items(body):
        for path, item in _read_items(body):
            if item.type in _TOOL_ITEM_TYPES and item.tools != NULL:
                placed += [PlacedTool(f"{path}.tools[{at}]", raw) for at, raw in enumerate(_list_decoder.decode(item.tools))]
    return placed


def read_settings(body: Mapping[str, Any]) -> Settings:
    """The last settings that items make. Raises DECODE_ERRORS."""
    effort, text, text_path = None, None, ""
    for path, item in _read_items(body):
        if item.type != "configuration_update":
            continue
        if item.reasoning != NULL:
            effort = _object_decoder.decode(item.reasoning).get("effort", effort)
        if item.text != NULL:
            text, text_path = _object_decoder.decode(item.text).get("format"), f"{path}.text"
    return Settings(effort, text, text_path)


def _read_items(body: Mapping[str, Any]) -> Iterator[tuple[str, _Item]]:
    items = list_input_items(body)
    for at, raw in enumerate(items):
        try:
            item = _item_decoder.decode(raw)
        except DECODE_ERRORS:
            continue  # an item of another kind, whose reader says what is wrong
        yield items.item_path(at) if isinstance(items, ContinuedInput) else f"input[{at}]", item
