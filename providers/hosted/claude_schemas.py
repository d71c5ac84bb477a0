"""JSON schemas as Anthropic compiles them. Some of what it refuses can be left out, and looked at in the answer; some leaves no schema.

What it takes: https://platform.claude.com/docs/en/build-with-claude/structured-outputs (JSON schema limitations, complexity limits), and
lib/_parse/_transform.py of its SDK 2.11, both read 2026-11; 400s recorded at strict tools: /reference/providers.md part 3.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from providers.guided.heeded import SAYS_NOTHING
from providers.hosted.claude_references import fault_of_references
from providers.wire import UNREADABLE

MOST_STRICT_TOOLS, MOST_OPTIONAL, MOST_UNIONS = 20, 24, 16
_DEEPEST = 48

_KINDS = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_TAKEN = frozenset({"type", "title", "description", "default", "$schema", "enum", "const", "required"})
_NAMING = frozenset({"properties", "$defs", "definitions"})
_TELLING = frozenset({"type", "enum", "const", "anyOf", "allOf", "oneOf", "properties", "$ref"})
# Without them, what is left would allow other values, or none of those that they allow.
_NEVER = frozenset({"patternProperties", "prefixItems", "$dynamicRef", "$recursiveRef"})
# Groups that look around, references back, borders of words, classes of its own, and repetitions of many.
_ODD_PATTERN = re.compile(r"\(\?[=!<]|\\[1-9bBkpP]|\{\d{3,}|,\d{3,}\}")


class Fitted(Struct, frozen=True):
    """`schema`: what Anthropic is told; None: it compiles nothing of the kind. `lost`: what it does not take, the first one first.

    `optional`, `unions`: how much of its limits the schema needs.
    """

    schema: Raw | None
    lost: tuple[str, ...]
    optional: int = 0
    unions: int = 0

    @property
    def is_whole(self) -> bool:
        return self.schema is not None and not self.lost


class _Never(Exception):
    """Without what it names, answers would be others than those that the caller allows."""


def fitted(schema: Raw, *, closes: bool) -> Fitted:
    """`closes`: objects that do not say whether they may hold more may not, as is so of all in OpenAI's strict schemas."""
    walk = _Walk(closes=closes)
    try:
        told = msgspec.json.decode(schema)
        written = walk.root(told)
    except _Never as reason:
        return Fitted(None, (str(reason), *walk.lost))
    except UNREADABLE:
        return Fitted(None, ("a schema nested without end",))
    what = f"more than {MOST_OPTIONAL} optional properties" if walk.optional > MOST_OPTIONAL else None
    what = f"more than {MOST_UNIONS} unions" if walk.unions > MOST_UNIONS else what
    if what is not None:
        return Fitted(None, (what, *walk.lost), walk.optional, walk.unions)
    return Fitted(Raw(msgspec.json.encode(written)), tuple(dict.fromkeys(walk.lost)), walk.optional, walk.unions)


class _Walk:
    def __init__(self, *, closes: bool) -> None:
        self.lost: list[str] = []
        self.optional = 0
        self.unions = 0
        self._closes = closes

    def root(self, schema: Any) -> dict[str, Any]:
        fault = fault_of_references(cast("dict[str, Any]", schema)) if isinstance(schema, dict) else None
        if fault is not None:
            raise _Never(fault)
        return self._fit(schema, 0)

    def _fit(self, schema: Any, depth: int) -> dict[str, Any]:
        if depth > _DEEPEST:
            raise _Never("a schema nested without end")
        if not isinstance(schema, dict) or _TELLING.isdisjoint(cast("dict[str, Any]", schema)):
            raise _Never("a schema of anything at all")
        told = cast("dict[str, Any]", schema)
        never = min(_NEVER & told.keys(), default=None)
        if never is not None or ("oneOf" in told and "anyOf" in told):
            raise _Never(never or "oneOf beside anyOf")
        written: dict[str, Any] = {}
        lost: dict[str, Any] = {}
        for key, value in told.items():
            if key in _NAMING and isinstance(value, dict):
                written[key] = {name: self._fit(inner, depth + 1) for name, inner in cast("dict[str, Any]", value).items()}
            elif key in ("anyOf", "oneOf", "allOf") and isinstance(value, list):
                written["allOf" if key == "allOf" else "anyOf"] = [self._fit(inner, depth + 1) for inner in cast("list[Any]", value)]
                self.lost += ["oneOf"] if key == "oneOf" else []
            elif key == "items":
                written[key] = self._fit(value, depth + 1)
            elif key == "$ref" or key in _TAKEN or _is_taken(key, value):
                written[key] = value
            elif key != "additionalProperties" and key not in SAYS_NOTHING:
                lost[key] = value
        self._hold_kinds(told, written)
        self._count(written)
        return self._alone(written) if "$ref" in written else self._described(written, lost)

    def _hold_kinds(self, told: Mapping[str, Any], written: dict[str, Any]) -> None:
        kinds = _kinds(told)
        if not kinds <= _KINDS:
            raise _Never("a type of another kind")
        if "array" in kinds and "items" not in written:
            raise _Never("an array of anything at all")
        if "object" in kinds:
            if told.get("additionalProperties", not self._closes) is not False:
                raise _Never("additionalProperties other than false")
            written["additionalProperties"] = False
        if any("$ref" in each for each in written.get("allOf", ())):
            raise _Never("allOf with $ref")
        listed: Any = written.get("enum")
        values = [told.get("const"), *(cast("list[Any]", listed) if isinstance(listed, list) else [])]
        if any(isinstance(each, dict | list) for each in values):
            raise _Never("an enum or a const of objects or lists")

    def _count(self, written: Mapping[str, Any]) -> None:
        if "anyOf" in written or isinstance(written.get("type"), list):
            self.unions += 1
        self.optional += len(written.get("properties", {}).keys() - set(written.get("required") or ()))

    def _alone(self, written: dict[str, Any]) -> dict[str, Any]:
        """A reference: that what is said beside it is held nobody says."""
        kept = {key: value for key, value in written.items() if key in ("$ref", "$schema", "$defs", "definitions")}
        self.lost += sorted(written.keys() - kept.keys() - SAYS_NOTHING)
        return kept

    def _described(self, written: dict[str, Any], lost: Mapping[str, Any]) -> dict[str, Any]:
        """What is no longer in the schema, the model reads."""
        if lost:
            self.lost += lost
            rest = msgspec.json.encode(lost).decode()
            written["description"] = f"{written['description']}\n\n{rest}" if written.get("description") else rest
        return written


def _is_taken(key: str, value: Any) -> bool:
    match key:
        case "minItems":
            return value in (0, 1)
        case "format":
            return value in _FORMATS
        case "pattern":
            return isinstance(value, str) and _ODD_PATTERN.search(value) is None
        case _:
            return False


def _kinds(told: Mapping[str, Any]) -> frozenset[str]:
    said = told.get("type")
    kinds: list[Any] = cast("list[Any]", said) if isinstance(said, list) else [] if said is None else [said]
    return frozenset(map(str, kinds)) | ({"object"} if "properties" in told else frozenset[str]())
