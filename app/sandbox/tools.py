"""Tools: which ones a response calls. A walk generates their arguments."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import cast

from app.sandbox.protocol.errors import InvalidRequest
from app.sandbox.protocol.request_schema import ChatBody, Function, NamedTool
from app.sandbox.text.constraint import ConstraintSource

MAX_CALLS = 4
# As coding agents tell the model that is to sum up a conversation, whose tools the request still has.
_FORBIDS_CALLS = re.compile(r"\b(?:do not|don't|must not|never) (?:call|use) (?:any )?(?:tool|function)s?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CallableTool:
    """A tool that may be called, and the constraint that its arguments obey."""

    name: str
    arguments: ConstraintSource


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """The tools that may be called, and how many calls there are. `matching` are the tools that fit the message.

    `exact_calls` is the number that the request's `sandbox` object demands, or None if it demands none.
    `is_named` says whether the caller chose a tool by name.
    """

    tools: tuple[CallableTool, ...] = ()
    matching: tuple[CallableTool, ...] = ()
    min_calls: int = 0
    exact_calls: int | None = None
    is_parallel: bool = True
    is_named: bool = False

    def choose_calls(self, rng: Random) -> list[CallableTool]:
        """The tools to call, in order; empty: respond with text."""
        if not self.tools:
            return []
        if self.exact_calls is not None:
            candidates = self.matching or self.tools
            return [candidates[index % len(candidates)] for index in range(self.exact_calls)]
        picked = list(self.matching[:MAX_CALLS])
        if len(picked) < self.min_calls:
            picked = [rng.choice(self.tools)]
        return picked if self.is_parallel else picked[:1]


def read_tools(body: ChatBody, user_text: str, *, is_answering_tools: bool) -> ToolPlan:
    """The plan for a chat: `auto` calls the tools whose name shares a word with the last user message.

    None after a tool result, or where that message says not to call any. That is predictable, so that an agent's loop ends; `required`
    forces a call. Raises InvalidRequest.
    """
    choice = body.tool_choice or "auto"
    functions = [tool.function for tool in body.tools or ()]
    if isinstance(choice, NamedTool):
        functions = [function for function in functions if function.name == choice.function.name]
        if not functions:
            raise InvalidRequest(f"tool_choice: there is no tool named {choice.function.name!r} in tools", "tool_choice")
    elif choice == "required" and not functions:
        raise InvalidRequest("tool_choice: tools are required, but there are none", "tool_choice")
    elif choice == "none":
        functions = []
    tools = tuple(CallableTool(function.name, ConstraintSource("tools", "json", parameters_of(function))) for function in functions)
    is_named = isinstance(choice, NamedTool)
    user_words = {match[0] for match in re.finditer(r"[^\W_]{3,}", user_text.lower())}
    calls_none = is_answering_tools or _FORBIDS_CALLS.search(user_text) is not None
    matching = () if calls_none else tuple(tool for tool in tools if user_words & set(split_name(tool.name)))
    return ToolPlan(
        tools=tools,
        matching=tools if is_named else matching,
        min_calls=1 if is_named or choice == "required" else 0,
        exact_calls=body.sandbox.calls if body.sandbox else None,
        is_parallel=body.parallel_tool_calls is not False,
        is_named=is_named,
    )


def parameters_of(function: Function) -> object:
    """The schema of the arguments. They are an object, even if the schema does not say so or there is none."""
    if function.parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    schema = {"type": "object", **function.parameters}
    try:
        return schema if _combines_schemas(schema) else _close_objects(schema)
    except RecursionError:
        return schema


# Where several subschemas hold for one object, or look at its other properties, closing one may leave nothing valid.
_COMBINING = frozenset(
    {
        *("allOf", "oneOf", "not", "if", "patternProperties", "propertyNames", "minProperties"),
        *("dependentSchemas", "dependentRequired", "unevaluatedProperties"),
    }
)
_MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions")
_VALUES = ("enum", "const", "default", "examples", "required")


def _combines_schemas(schema: object) -> bool:
    if isinstance(schema, list):
        return any(map(_combines_schemas, cast(list[object], schema)))
    if not isinstance(schema, dict):
        return False
    keywords = cast(dict[str, object], schema)
    if keywords.keys() & _COMBINING or ("properties" in keywords and keywords.keys() & {"anyOf", "$ref"}):
        return True
    return any(_combines_schemas(each) for keyword, value in keywords.items() for each in _subschemas(keyword, value))


def _close_objects(schema: object) -> object:
    """The schema without properties that it does not name: models send none, and many functions fail on them."""
    if isinstance(schema, list):
        return [_close_objects(each) for each in cast(list[object], schema)]
    if not isinstance(schema, dict):
        return schema
    closed: dict[str, object] = {}
    for keyword, value in cast(dict[str, object], schema).items():
        if keyword in _MAPS_OF_SCHEMAS and isinstance(value, dict):
            closed[keyword] = {name: _close_objects(each) for name, each in cast(dict[str, object], value).items()}
        else:
            closed[keyword] = value if keyword in _VALUES else _close_objects(value)
    properties, required = closed.get("properties"), closed.get("required", [])
    if isinstance(properties, dict) and isinstance(required, list) and all(name in properties for name in cast(list[object], required)):
        closed.setdefault("additionalProperties", False)
    return closed


def _subschemas(keyword: str, value: object) -> Iterable[object]:
    if keyword in _VALUES:
        return ()
    return cast(dict[str, object], value).values() if keyword in _MAPS_OF_SCHEMAS and isinstance(value, dict) else (value,)


def split_name(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}|[^\W_a-zA-Z]{3,}", name) if len(word) >= 3]
