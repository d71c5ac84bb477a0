"""The protocol of the checking process: orders and verdicts. A frame is four bytes of length, then MessagePack."""

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from providers.canonical.output_format import OutputKind

LENGTH_PREFIX_BYTES = 4

# Limits for a path in an error: a hostile source can have paths as long as itself.
_MAX_STEP_CHARS = 80
_MAX_STEPS = 30


class CheckTask(Struct, frozen=True, array_like=True):
    """One constraint, or a response to check against it."""

    kind: OutputKind
    source: str  # a schema's JSON, a pattern, a grammar, or a structural tag's JSON
    response_text: str | None = None  # None: check the constraint itself
    is_complete: bool = True  # False: the response was cut off
    whitespace: str | None = None  # of a schema whose regex is requested too, the regex of the white space in its JSON


class CheckOrder(Struct, frozen=True, array_like=True):
    """Tasks, and the processor time that they may take together."""

    tasks: tuple[CheckTask, ...]
    processor_s: float


class Verdict(Struct, frozen=True, array_like=True):
    """The checker's result for an order."""

    # valid: all tasks passed; invalid: task `task_index` failed, at `path` in its source; too_expensive: it exceeded the limits;
    # out_of_time: it took long by the clock, although little of the processor: the machine is too busy to say more
    outcome: Literal["valid", "invalid", "too_expensive", "out_of_time"]
    message: str = ""
    task_index: int = 0
    path: tuple[str | int, ...] = ()
    unenforced: tuple[int, ...] = ()  # tasks with a schema that engines' grammars are not known to enforce in full
    # by task, for those with `whitespace` whose schemas outlines-core is known to convert faithfully
    whitespace_regexes: Mapping[int, str] = {}


def encode_frame(message: CheckOrder | Verdict) -> bytes:
    raw = msgspec.msgpack.encode(message)
    return len(raw).to_bytes(LENGTH_PREFIX_BYTES, "big") + raw


def dotted_path(field: str, path: Sequence[str | int]) -> str:
    """A path in a caller's field as errors show it, for example tools[0].function.parameters."""
    return field + "".join(f"[{step}]" if isinstance(step, int) else f".{step:.{_MAX_STEP_CHARS}}" for step in path[:_MAX_STEPS])
