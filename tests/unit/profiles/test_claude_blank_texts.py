"""Blank texts that carry a cache mark, for Claude, which takes none: the prefix that the caller wanted cached stays marked."""

from typing import Any, cast

import pytest

from tests.unit.profiles.test_claude_adapt_chat import FUNCTION_TOOL, MIDDLE, translate

SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


def text(content: str, mark: dict[str, str] | None = None) -> dict[str, Any]:
    return {"type": "text", "text": content, **({} if mark is None else {"cache_control": mark})}


def user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": [*content]}


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
AFTER_A_CALL = [user(text("Hi")), {"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c", "content": "1"}]

MOVED: list[tuple[str, list[dict[str, Any]], dict[str, dict[str, str]], list[str]]] = [
    ("within its message", [user(text("A"), text(" ", SHORT), text("B"))], {"A": SHORT}, ["messages[0].content[1]"]),
    (
        "over other blanks",
        [user(text("A"), text(""), text("\n", LONG), text("B"))],
        {"A": LONG},
        ["messages[0].content[2]"],
    ),
    (
        "to the message before",
        [user(text("A")), {"role": "assistant", "content": "B"}, user(text("", SHORT), text("C"))],
        {"B": SHORT},
        ["messages[2].content[0]"],
    ),
    (
        "over a message of blanks",
        [user(text("A")), {"role": "assistant", "content": " "}, user(text(" ", SHORT), text("C"))],
        {"A": SHORT},
        ["messages[1].content", "messages[2].content[0]"],
    ),
    (
        "to the instructions",
        [{"role": "system", "content": "S"}, user(text(" ", SHORT), text("A"))],
        {"S": SHORT},
        ["messages[1].content[0]"],
    ),
    ("to a result", [*AFTER_A_CALL, user(text(" ", SHORT), text("A"))], {"1": SHORT}, ["messages[3].content[0]"]),
    ("nowhere before the first part", [user(text(" ", SHORT), text("A"))], {}, ["messages[0].content[0]"]),
    ("not to a part with its own", [user(text("A", LONG), text(" ", SHORT))], {"A": LONG}, ["messages[0].content[1]"]),
    (
        "once of several",
        [user(text("A"), text(" ", LONG), text(" ", SHORT))],
        {"A": LONG},
        ["messages[0].content[1]", "messages[0].content[2]"],
    ),
]


def marks(content: Any) -> dict[str, Any]:
    """The marks of blocks, by the text of the block that has it."""
    found: dict[str, Any] = {}
    for block in cast("list[dict[str, Any]]", content) if isinstance(content, list) else ():
        if "cache_control" in block:
            found[str(block.get("text") or block.get("content"))] = block["cache_control"]
        found.update(marks(block.get("content")))
    return found


@pytest.mark.parametrize(("messages", "moved", "dropped"), [row[1:] for row in MOVED], ids=[row[0] for row in MOVED])
async def test_cache_mark_of_a_blank_text_moves(messages: list[dict[str, Any]], moved: dict[str, Any], dropped: list[str]):
    body, reported, _ = await translate(MIDDLE, messages=messages, tools=[FUNCTION_TOOL])
    assert {**marks(body.get("system")), **marks(body["messages"])} == moved
    assert reported == dropped


async def test_moved_cache_marks_count_among_the_four_that_claude_takes():
    parts = [part for number in range(6) for part in (text(str(number)), text(" ", SHORT))]
    body, dropped, _ = await translate(MIDDLE, messages=[user(*parts)])
    assert [*marks(body["messages"])] == ["2", "3", "4", "5"]
    assert dropped[-1] == "cache_control"


async def test_marks_of_blank_texts_at_one_part_are_one_mark():
    parts = [text("0"), *(text(" ", SHORT) for _ in range(5)), *(text(str(number), SHORT) for number in range(1, 4))]
    body, dropped, _ = await translate(MIDDLE, messages=[user(*parts)])
    assert [*marks(body["messages"])] == ["0", "1", "2", "3"]
    assert "cache_control" not in dropped
