"""Arguments of a call that come in pieces (partialArgs), each with the JSON path where it belongs, put together to an object.

Vertex sends calls so where streamFunctionCallArguments is asked for. Source: recording gcp_vertex_gemini/21;
https://docs.cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling#streaming-fc, read 2026-11.
"""

import itertools
import re
from typing import Any, cast

import msgspec

from providers.errors import Garbled

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_LONGEST = 16 * 1024 * 1024


class Piece(msgspec.Struct):
    jsonPath: str = "$"
    stringValue: str | None = None
    numberValue: float | None = None
    boolValue: bool | None = None
    nullValue: Any = msgspec.UNSET
    willContinue: bool = False


class Arguments:
    """One call's. Texts grow where they stand; all else comes whole."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._size = 0

    def add(self, piece: Piece) -> None:
        """Raises Garbled for a place that cannot be, or without end."""
        steps = _steps(piece.jsonPath)
        self._size += len(piece.jsonPath) + len(piece.stringValue or "")
        if not steps or self._size > _LONGEST:
            raise Garbled("The engine sent a piece of a call's arguments that has no place in them, or more than it may.")
        into: Any = self._root
        for step, after in itertools.pairwise(steps):
            into = _entered(into, step, cast(Any, [] if isinstance(after, int) else {}))
        value = _value(piece)
        if isinstance(value, str):
            before = _entered(into, steps[-1], "")
            value = before + value if isinstance(before, str) else value
        _put(into, steps[-1], value)

    def end(self) -> str:
        return msgspec.json.encode(self._root).decode()


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 1 if path.startswith("$") else len(path)
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            return []
        name, index, *quoted = found.groups()
        steps.append(int(index) if index else name or next(each for each in quoted if each is not None))
        at = found.end()
    return steps


def _entered(into: Any, step: str | int, fresh: Any) -> Any:
    """What stands there, or `fresh`, which then does."""
    if isinstance(into, dict) and isinstance(step, str):
        return cast(dict[str, Any], into).setdefault(step, fresh)
    if isinstance(into, list) and isinstance(step, int):
        listed = cast(list[Any], into)
        if step == len(listed):
            listed.append(fresh)
        if step < len(listed):
            return listed[step]
    raise Garbled("The engine sent a piece of a call's arguments that does not fit those before it.")


def _put(into: Any, step: str | int, value: Any) -> None:
    _entered(into, step, None)
    into[step] = value


def _value(piece: Piece) -> Any:
    if piece.stringValue is not None:
        return piece.stringValue
    if piece.boolValue is not None:
        return piece.boolValue
    if piece.numberValue is not None:
        return int(piece.numberValue) if piece.numberValue.is_integer() else piece.numberValue
    return None
