"""Arguments of a call that arrive in pieces (partialArgs), each with its JSON path, assembled to an object.

Vertex sends calls so where streamFunctionCallArguments is set. Source: recording gcp_vertex_gemini/21;
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc, read 2026-11.
"""

import itertools
import re
from typing import Any, cast

import msgspec

from providers.canonical.errors import InvalidUpstreamResponse

_PATH_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_MAX_SIZE = 16 * 1024 * 1024


class PartialArgument(msgspec.Struct):
    jsonPath: str = "$"
    stringValue: str | None = None
    numberValue: float | None = None
    boolValue: bool | None = None
    nullValue: Any = msgspec.UNSET
    willContinue: bool = False


class ArgumentsBuilder:
    """The arguments of one call. Strings may arrive in several pieces, other values arrive at once."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._size = 0

    def add(self, piece: PartialArgument) -> None:
        """Raises InvalidUpstreamResponse for an impossible path, or for too many arguments."""
        steps = _parse_path(piece.jsonPath)
        self._size += len(piece.jsonPath) + len(piece.stringValue or "")
        if not steps or self._size > _MAX_SIZE:
            raise InvalidUpstreamResponse(f"The engine sent a call's arguments at an invalid path, or more than {_MAX_SIZE} characters.")
        target: Any = self._root
        for step, next_step in itertools.pairwise(steps):
            target = _descend(target, step, cast(Any, [] if isinstance(next_step, int) else {}))
        value = _value(piece)
        if isinstance(value, str):
            existing = _descend(target, steps[-1], "")
            value = existing + value if isinstance(existing, str) else value
        _assign(target, steps[-1], value)

    def to_json(self) -> str:
        return msgspec.json.encode(self._root).decode()


def _parse_path(path: str) -> list[str | int]:
    steps: list[str | int] = []
    position = 1 if path.startswith("$") else len(path)
    while position < len(path):
        matched = _PATH_STEP.match(path, position)
        if matched is None:
            return []
        name, index, *quoted = matched.groups()
        steps.append(int(index) if index else name or next(each for each in quoted if each is not None))
        position = matched.end()
    return steps


def _descend(target: Any, step: str | int, default: Any) -> Any:
    """The value at a step, set to `default` if there is none."""
    if isinstance(target, dict) and isinstance(step, str):
        return cast(dict[str, Any], target).setdefault(step, default)
    if isinstance(target, list) and isinstance(step, int):
        items = cast(list[Any], target)
        if step == len(items):
            items.append(default)
        if step < len(items):
            return items[step]
    raise InvalidUpstreamResponse("The engine sent a piece of a call's arguments that does not fit the earlier ones.")


def _assign(target: Any, step: str | int, value: Any) -> None:
    _descend(target, step, None)
    target[step] = value


def _value(piece: PartialArgument) -> Any:
    if piece.stringValue is not None:
        return piece.stringValue
    if piece.boolValue is not None:
        return piece.boolValue
    if piece.numberValue is not None:
        return int(piece.numberValue) if piece.numberValue.is_integer() else piece.numberValue
    return None
