"""What is asked of the process that checks, and what it answers. Frames: four bytes of length, then MessagePack."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from providers.guided import Kind

HEAD_BYTES = 4

# Of what an error names: a hostile source has paths as long as itself.
_LONGEST_STEP = 80
_MOST_STEPS = 30


class Task(Struct, frozen=True, array_like=True):
    """`source`: a schema's JSON, a pattern, a grammar, a tag's JSON. `reply` None: the constraint itself is to be looked at.

    `whole` False: the reply was cut off, and may be a beginning.
    """

    kind: Kind
    source: str
    reply: str | None = None
    whole: bool = True


class Order(Struct, frozen=True, array_like=True):
    """Tasks that together may take so much of the processor."""

    tasks: tuple[Task, ...]
    processor_s: float


class Verdict(Struct, frozen=True, array_like=True):
    """fits: no task shows a fault. faulty: the task `at` does, at `path` within its source. heavy: looking took more than it may.

    `loose`: the tasks with a schema to which engines' grammars are not known to hold in full.
    """

    outcome: Literal["fits", "faulty", "heavy"]
    message: str = ""
    at: int = 0
    path: tuple[str | int, ...] = ()
    loose: tuple[int, ...] = ()


def framed(told: Order | Verdict) -> bytes:
    raw = msgspec.msgpack.encode(told)
    return len(raw).to_bytes(HEAD_BYTES, "big") + raw


def dotted(place: str, path: Sequence[str | int]) -> str:
    """A path within a caller's field, as errors name it."""
    return place + "".join(f"[{step}]" if isinstance(step, int) else f".{step:.{_LONGEST_STEP}}" for step in path[:_MOST_STEPS])
