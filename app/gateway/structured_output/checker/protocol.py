"""What is asked of the process that checks, and what it answers. Frames: four bytes of length, then MessagePack."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from providers.structured_output import OutputKind

LENGTH_PREFIX_BYTES = 4

# Of what an error names: a hostile source has paths as long as itself.
_MAX_STEP_CHARS = 80
_MAX_STEPS = 30


class CheckTask(Struct, frozen=True, array_like=True):
    """`source`: a schema's JSON, a pattern, a grammar, a tag's JSON. `reply` None: the constraint itself is to be looked at.

    `whole` False: the reply was cut off, and may be a beginning.
    """

    kind: OutputKind
    source: str
    response_text: str | None = None
    is_complete: bool = True


class CheckOrder(Struct, frozen=True, array_like=True):
    """Tasks that together may take so much of the processor."""

    tasks: tuple[CheckTask, ...]
    processor_s: float


class Verdict(Struct, frozen=True, array_like=True):
    """fits: no task shows a fault. faulty: the task `at` does, at `path` within its source. heavy: looking took more than it may.

    `loose`: the tasks with a schema to which engines' grammars are not known to hold in full.
    """

    outcome: Literal["fits", "faulty", "heavy"]
    message: str = ""
    task_index: int = 0
    path: tuple[str | int, ...] = ()
    unenforced: tuple[int, ...] = ()


def encode_frame(message: CheckOrder | Verdict) -> bytes:
    raw = msgspec.msgpack.encode(message)
    return len(raw).to_bytes(LENGTH_PREFIX_BYTES, "big") + raw


def dotted_path(field: str, path: Sequence[str | int]) -> str:
    """A path within a caller's field, as errors name it."""
    return field + "".join(f"[{step}]" if isinstance(step, int) else f".{step:.{_MAX_STEP_CHARS}}" for step in path[:_MAX_STEPS])
