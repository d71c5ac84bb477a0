"""Constraints whose outputs a random model finishes in a few hundred tokens of one byte each.

No free strings, and none with minLength or maxLength: see test_bounded_string_may_contain_control_characters.
"""

from typing import Any

import jsonschema

BOOKING: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Oslo", "Łódź", "Köln"]},
        "nights": {"type": "integer", "minimum": 1, "maximum": 14},
        "code": {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
        "extras": {"type": "array", "items": {"enum": ["cot", "desk"]}, "maxItems": 2},
        "late": {"type": "boolean"},
    },
    "required": ["city", "nights", "code", "extras", "late"],
    "additionalProperties": False,
}
REGEX = "[0-9]{4}-[a-f]{2}"
CHOICE = ["yes", "no", "it depends"]
EBNF = 'root ::= "room " [1-9] [0-9]{2}'
LARK = 'start: "room " /[1-9][0-9]{2}/'
ROOM_REGEX = "room [1-9][0-9]{2}"
# A schema that vLLM's xgrammar refuses; other unsupported keywords it ignores silently.
REFUSED_BY_XGRAMMAR: dict[str, Any] = {"type": "integer", "multipleOf": 7}

SUFFICIENT_TOKENS = 400


def booking_tool(name: str, strict: bool) -> dict[str, Any]:
    """A function tool whose arguments are a BOOKING."""
    return {"type": "function", "function": {"name": name, "description": "Books.", "parameters": BOOKING, "strict": strict}}


def assert_booking(value: object) -> None:
    """Raise if the value is not valid for BOOKING."""
    jsonschema.validate(value, BOOKING)
