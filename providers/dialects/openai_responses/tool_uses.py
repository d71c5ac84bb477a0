"""The uses of OpenAI's own tools, which are billed by the use.

The usage of a response does not report them, so its output items are counted.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw, Struct

from providers.canonical.raw_json import DECODE_ERRORS
from providers.canonical.tool_uses import CODE_INTERPRETER, FILE_SEARCH, WEB_SEARCH, count_uses

_BILLED_ITEMS = (b"web_search_call", b"file_search_call", b"code_interpreter_call")


class _Action(Struct):
    type: str = ""


class _Item(Struct):
    type: str = ""
    action: _Action | None = None
    container_id: str | None = None


_item_decoder = msgspec.json.Decoder(_Item)


def count_tool_calls(output: Sequence[Raw]) -> Mapping[str, int] | None:
    """A search of the web is one use, opening a page is none; a code interpreter is billed by its container.

    Source: https://developers.openai.com/api/docs/guides/tools-web-search and .../pricing, read 2026-11.
    """
    counts: list[tuple[str, int]] = []
    containers: set[str | None] = set()
    for raw in output:
        if not any([name in bytes(raw) for name in _BILLED_ITEMS]):
            continue
        try:
            item = _item_decoder.decode(raw)
        except DECODE_ERRORS:
            continue
        if item.type == "web_search_call" and (item.action is None or item.action.type in ("", "search")):
            counts.append((WEB_SEARCH, 1))
        elif item.type == "file_search_call":
            counts.append((FILE_SEARCH, 1))
        elif item.type == "code_interpreter_call" and item.container_id not in containers:
            containers.add(item.container_id)
            counts.append((CODE_INTERPRETER, 1))
    return count_uses(counts)


def may_have_tool_calls(raw: bytes) -> bool:
    """Whether the bytes of a response are worth looking at."""
    return b"_call" in raw and any([name in raw for name in _BILLED_ITEMS])
