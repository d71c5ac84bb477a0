"""Shapes that some host refuses, as each caller's API writes them: requests, and what of them no target may be sent.

A shape is a field or a history that OpenAI or a lenient host takes. The table is shapes by callers' APIs by adapters; each cell is a
request in a form that every host takes, or a refusal that names the caller's own field.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB"
CHAT, RESPONSES, MESSAGES = "openai_chat", "openai_responses", "anthropic_messages"
APIS = (CHAT, RESPONSES, MESSAGES)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
MISSING_RESULT = "This call has no result"


class Shape(Struct, frozen=True):
    """A shape that some host refuses: requests in it, and what of them no target may be sent."""

    name: str
    bodies: Mapping[str, Mapping[str, Any]]  # by the caller's API
    fault: Callable[[dict[str, Any]], str | None]  # what is wrong with a body that is sent; None: nothing
    reported: bool = False  # whether the change is


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a body."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield fields
        for inner in fields.values():
            yield from objects(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from objects(inner)


def tool(api: str, schema: Any) -> dict[str, Any]:
    match api:
        case "openai_chat":
            return {"type": "function", "function": {"name": "weather", "description": "d", "parameters": schema}}
        case "openai_responses":
            return {"type": "function", "name": "weather", "description": "d", "strict": False, "parameters": schema}
        case _:
            return {"name": "weather", "description": "d", "input_schema": schema}


def user(api: str, content: Any = "Hello") -> list[Any]:
    return [{"role": "user", "content": content}]


def call(api: str, id: str) -> list[Any]:
    """The messages or items of a call."""
    match api:
        case "openai_chat":
            function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
            return [{"role": "assistant", "content": None, "tool_calls": [{"id": id, "type": "function", "function": function}]}]
        case "openai_responses":
            return [{"type": "function_call", "call_id": id, "name": "weather", "arguments": '{"city": "Oslo"}'}]
        case _:
            return [{"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": "weather", "input": {"city": "Oslo"}}]}]


def result(api: str, id: str, text: str) -> list[Any]:
    match api:
        case "openai_chat":
            return [{"role": "tool", "tool_call_id": id, "content": text}]
        case "openai_responses":
            return [{"type": "function_call_output", "call_id": id, "output": text}]
        case _:
            return [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]}]


def image(api: str, label: str, data: str) -> dict[str, Any]:
    match api:
        case "openai_chat":
            return {"type": "image_url", "image_url": {"url": f"data:{label};base64,{data}"}}
        case "openai_responses":
            return {"type": "input_image", "image_url": f"data:{label};base64,{data}"}
        case _:
            return {"type": "image", "source": {"type": "base64", "media_type": label, "data": data}}


def body(api: str, messages: Sequence[Any], **fields: Any) -> dict[str, Any]:
    return {"input" if api == RESPONSES else "messages": messages, **({"max_tokens": 99} if api == MESSAGES else {}), **fields}


def by_api(build: Callable[[str], Mapping[str, Any]]) -> Mapping[str, Mapping[str, Any]]:
    return {api: build(api) for api in APIS}


def untyped_schema(sent: dict[str, Any]) -> str | None:
    names = ("parameters", "input_schema", "parametersJsonSchema")
    schemas = [each[name] for each in objects(sent) for name in names if isinstance(each.get(name), dict)]
    schemas += [each["inputSchema"]["json"] for each in objects(sent) if "inputSchema" in each]
    return next((f"the schema {schema}" for schema in schemas if schema.get("type") not in ("object", "OBJECT")), None)


def bare_tool(api: str, fields: dict[str, Any]) -> dict[str, Any]:
    named = {"name": "weather", "description": "d", **fields}
    return {"type": "function", "function": named} if api == CHAT else {"type": "function", "strict": False, **named}


def null_schema(sent: dict[str, Any]) -> str | None:
    names = ("parameters", "input_schema", "parametersJsonSchema")
    return next((f"{name}: null" for each in objects(sent) for name in names if name in each and each[name] is None), None)


def lost_text(sent: dict[str, Any]) -> str | None:
    """The texts of each part reach the target, whatever form they have there."""
    text = str(sent)
    return next((f"{each} is missing" for each in ("ONE", "TWO", "FIVE", "SIX") if each not in text), None)


def empty_list_or_null(sent: dict[str, Any]) -> str | None:
    for each in objects(sent):
        for name in ("tools", "tool_calls", "stop", "stop_sequences", "functions", "toolConfig", "stopSequences"):
            if name in each and not each[name]:
                return f"{name}: {each[name]}"
    return next((f"{name}: null" for name in ("temperature", "tool_choice", "top_p", "seed") if name in sent and sent[name] is None), None)


def wrong_label(sent: dict[str, Any]) -> str | None:
    text = str(sent)
    return next((label for label in ("image/jpg", "image/png", "'format': 'png'", "'format': 'jpg'") if label in text), None)


def unanswered_call(sent: dict[str, Any]) -> str | None:
    return None if MISSING_RESULT in str(sent) else "a call without a result"


def lost_result(sent: dict[str, Any]) -> str | None:
    answered = {each.get(key) for each in objects(sent) for key in ("tool_call_id", "tool_use_id", "toolUseId", "call_id")}
    return "a result without a call" if "lost" in answered or "It snows." not in str(sent) else None


def strings_for_numbers(sent: dict[str, Any]) -> str | None:
    numbers = [(name, each[name]) for each in objects(sent) for name in ("temperature", "top_p", "topP", "max_tokens") if name in each]
    return next((f"{name}: {value!r}" for name, value in numbers if isinstance(value, str)), None)


def _with_lost_result(api: str) -> Mapping[str, Any]:
    return body(api, [*user(api), *result(api, "lost", "It snows."), *user(api, "Go on.")], tools=[tool(api, SCHEMA)])


def _texts(kind: str, *texts: str) -> list[dict[str, Any]]:
    return [{"type": kind, "text": each} for each in texts]


def _with_lists_of_texts(api: str) -> dict[str, Any]:
    match api:
        case "openai_chat":
            instructions = [{"role": "system", "content": _texts("text", "ONE", "TWO")}]
            answer = [{"role": "assistant", "content": _texts("text", "THREE", "FOUR")}]
            return body(api, [*instructions, *user(api), *answer, *user(api, _texts("text", "FIVE", "SIX"))])
        case "openai_responses":
            instructions = [{"role": "system", "content": _texts("input_text", "ONE", "TWO")}]
            return body(api, [*instructions, *user(api, _texts("input_text", "FIVE", "SIX"))])
        case _:
            return body(api, user(api, _texts("text", "FIVE", "SIX")), system=_texts("text", "ONE", "TWO"))


UNTYPED_SCHEMAS: Mapping[str, dict[str, Any]] = {
    "empty": {},
    "without a type": {"properties": {"city": {"type": "string"}}},
    "with type null": {"type": None, "properties": {}},
    "with a list of types": {"type": ["object", "null"], "properties": {}},
}

SHAPES = (
    *(
        Shape(f"schema {name}", {api: body(api, user(api), tools=[tool(api, schema)]) for api in APIS}, untyped_schema)
        for name, schema in UNTYPED_SCHEMAS.items()
    ),
    Shape("a function with parameters null", {CHAT: body(CHAT, user(CHAT), tools=[bare_tool(CHAT, {"parameters": None})])}, null_schema),
    Shape("lists of texts", by_api(_with_lists_of_texts), lost_text),
    Shape("no tools", by_api(lambda api: body(api, user(api), tools=[])), empty_list_or_null),
    Shape("null fields", by_api(lambda api: body(api, user(api), temperature=None, tools=None, top_p=None)), empty_list_or_null),
    Shape(
        "no stops", {CHAT: body(CHAT, user(CHAT), stop=[]), MESSAGES: body(MESSAGES, user(MESSAGES), stop_sequences=[])}, empty_list_or_null
    ),
    Shape(
        "no calls in a history",
        {CHAT: body(CHAT, [*user(CHAT), {"role": "assistant", "content": "Hi.", "tool_calls": []}, *user(CHAT)])},
        empty_list_or_null,
    ),
    Shape(
        "a JPEG labelled image/jpg",
        by_api(lambda api: body(api, user(api, [image(api, "image/jpg", JPEG)]))),
        wrong_label,
    ),
    Shape(
        "a JPEG labelled image/png",
        by_api(lambda api: body(api, user(api, [image(api, "image/png", JPEG)]))),
        wrong_label,
    ),
    Shape(
        "a call without a result",
        by_api(lambda api: body(api, [*user(api), *call(api, "call_1"), *user(api, "Go on.")], tools=[tool(api, SCHEMA)])),
        unanswered_call,
        reported=True,
    ),
    Shape("a result without a call", by_api(_with_lost_result), lost_result, reported=True),
    Shape(
        "numbers in strings",
        by_api(lambda api: body(api, user(api), temperature="0.5", top_p="1")),
        strings_for_numbers,
    ),
)
