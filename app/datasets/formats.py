"""Examples as lines of training files: what OpenAI's fine-tuning takes, which most other trainers take, too.

    chat         {"messages": [..., {"role": "assistant", ...}], "tools": [...], "parallel_tool_calls": ...}
    preference   {"input": {"messages", "tools", "parallel_tool_calls"}, "preferred_output": [...], "non_preferred_output": [...]}
    completion   {"prompt": "...", "completion": "..."}

Source: https://developers.openai.com/api/docs/guides/supervised-fine-tuning and /direct-preference-optimization, and in OpenAI's API
description FineTuneChatRequestInput, FineTunePreferenceRequestInput and FineTuneCompletionRequestInput, read 2026-11.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec

from app.datasets.example import Example
from app.store.datasets.counts import LINE_FORMATS, LineFormat

Output = Literal["response", "demonstration"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TEXT_PARTS = frozenset({"text"})
_USER_PARTS = frozenset({"text", "image_url"})
_ASSISTANT_PARTS = frozenset({"text", "refusal"})
_MAX_TOOLS = 128


class Inexpressible(Exception):
    """The format has no word for a part of the example. Its text says what, and nothing that was written."""


def write_line(format: LineFormat, example: Example, output: Output) -> dict[str, Any]:
    """The line of an example in a format. `output` says which of response and demonstration the model shall learn. Raises Inexpressible."""
    return _WRITERS[format](example, output)


def find_faults(example: Example, output: Output) -> dict[LineFormat, str]:
    """Returns, by format, the reason why the example cannot be written in it. Formats that fit are left out."""
    faults: dict[LineFormat, str] = {}
    for format in LINE_FORMATS:
        try:
            write_line(format, example, output)
        except Inexpressible as fault:
            faults[format] = str(fault)
    return faults


def encode_line(line: dict[str, Any]) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _chosen(example: Example, output: Output) -> dict[str, Any]:
    chosen = example.response if output == "response" else example.demonstration
    if chosen is None:
        raise Inexpressible(f"there is no {output}")
    return chosen


def _write_chat(example: Example, output: Output) -> dict[str, Any]:
    messages = _messages(example.request)
    # Earlier answers are context: only the chosen one is to be learned.
    earlier = [{**message, "weight": 0} if message["role"] == "assistant" else message for message in messages]
    tools = _tools(example.request)
    return {"messages": [*earlier, _output_message(_chosen(example, output))], **tools}


def _write_preference(example: Example, _output: Output) -> dict[str, Any]:
    if example.response is None or example.demonstration is None:
        raise Inexpressible("a pair needs a response and a demonstration")
    preferred, other = _output_message(example.demonstration), _output_message(example.response)
    if preferred == other:
        raise Inexpressible("the response is equal to the demonstration")
    messages = _messages(example.request)
    if any(part.get("type") == "image_url" for message in messages for part in _parts(message)):
        raise Inexpressible("preference training takes no images")
    return {
        "input": {"messages": messages, **_tools(example.request)},
        "preferred_output": [preferred],
        "non_preferred_output": [other],
    }


def _write_completion(example: Example, output: Output) -> dict[str, Any]:
    prompt, message = example.request.get("prompt"), _chosen(example, output)
    if not isinstance(prompt, str):
        raise Inexpressible("it is a chat, not a prompt to continue")
    content = message.get("content")
    if not isinstance(content, str) or message.get("tool_calls"):
        raise Inexpressible("the output is not a text")
    return {"prompt": prompt, "completion": content}


_WRITERS: Mapping[LineFormat, Callable[[Example, Output], dict[str, Any]]] = {
    "chat": _write_chat,
    "preference": _write_preference,
    "completion": _write_completion,
}


def _messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    if "messages" not in request:
        raise Inexpressible("it is a prompt to continue, not a chat")
    calls: set[str] = set()
    written = [_message(message, f"messages[{at}]", calls) for at, message in enumerate(request["messages"])]
    if not written:
        raise Inexpressible("it has no messages")
    return written


def _message(message: dict[str, Any], path: str, calls: set[str]) -> dict[str, Any]:
    role = message["role"]
    match role:
        case "system" | "developer":  # the format knows only the older name
            return _named({"role": "system", "content": _content(message, path, _TEXT_PARTS)}, message)
        case "user":
            return _named({"role": "user", "content": _content(message, path, _USER_PARTS)}, message)
        case "tool":
            if message.get("tool_call_id") not in calls:
                raise Inexpressible(f"{path} is the result of a tool call that is not in the messages")
            content = _content(message, path, _TEXT_PARTS)
            return {"role": "tool", "tool_call_id": message["tool_call_id"], "content": content}
        case "assistant":
            written = _assistant(message, path)
            calls.update(call["id"] for call in written.get("tool_calls", ()))
            return _named(written, message)
        case _:
            raise Inexpressible(f"{path} has another role")


def _assistant(message: dict[str, Any], path: str) -> dict[str, Any]:
    """Writes an assistant message without reasoning and citations, for which the format has no fields."""
    written: dict[str, Any] = {"role": "assistant"}
    calls = [_tool_call(call, f"{path}.tool_calls[{at}]") for at, call in enumerate(message.get("tool_calls") or ())]
    if message.get("content") is not None:
        written["content"] = _content(message, path, _ASSISTANT_PARTS)
    if message.get("refusal"):
        written["refusal"] = message["refusal"]
    if calls:
        written["tool_calls"] = calls
    if len(written) == 1:
        written["content"] = ""
    return written


def _output_message(message: dict[str, Any]) -> dict[str, Any]:
    written = _assistant(message, "the output")
    if not written.get("content") and not written.get("tool_calls") and not written.get("refusal"):
        raise Inexpressible("the output is empty")
    return written


def _tool_call(call: dict[str, Any], path: str) -> dict[str, Any]:
    function = call.get("function")
    if call.get("type") != "function" or not isinstance(function, dict):
        raise Inexpressible(f"{path} calls a tool that is no function")
    return {"id": call["id"], "type": "function", "function": {name: function[name] for name in ("name", "arguments")}}


def _content(message: dict[str, Any], path: str, kinds: frozenset[str]) -> Any:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = _parts(message)
    for at, part in enumerate(parts):
        if part.get("type") not in kinds:
            raise Inexpressible(f"{path}.content[{at}] is neither {' nor '.join(sorted(kinds))}")
    return [_part(part) for part in parts] if parts else ""


def _part(part: dict[str, Any]) -> dict[str, Any]:
    match part:
        case {"type": "image_url", "image_url": {"url": url, **image}}:
            return {"type": "image_url", "image_url": {"url": url, **({"detail": image["detail"]} if image.get("detail") else {})}}
        case {"type": kind}:
            return {"type": kind, kind: part.get(kind) or ""}
        case _:
            raise Inexpressible("a part of a message has no type")


def _parts(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return cast("list[dict[str, Any]]", content) if isinstance(content, list) else []


def _named(written: dict[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    name = message.get("name")
    return {**written, "name": name} if isinstance(name, str) and _NAME.fullmatch(name) else written


def _tools(request: Mapping[str, Any]) -> dict[str, Any]:
    tools: list[dict[str, Any]] = request.get("tools") or []
    if not tools:
        return {}
    if len(tools) > _MAX_TOOLS:
        raise Inexpressible(f"it has more than {_MAX_TOOLS} tools")
    written = {"tools": [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]}
    parallel = request.get("parallel_tool_calls")
    return written if parallel is None else {**written, "parallel_tool_calls": parallel}


def _tool(tool: dict[str, Any], path: str) -> dict[str, Any]:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise Inexpressible(f"{path} is no function")
    fields = cast("dict[str, Any]", function)
    if not _NAME.fullmatch(str(fields.get("name"))):
        raise Inexpressible(f"{path} has a name that the format does not take")
    names = ("name", "description", "parameters", "strict")
    return {"type": "function", "function": {name: fields[name] for name in names if fields.get(name) is not None}}
