"""The protocol of the working process: a task and its body in, an outcome and its body out.

A frame is four bytes of the length of the head, eight of that of the body, the head as MessagePack, and the body as it is.
"""

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

LENGTHS_BYTES = 12


class MaskTask(Struct, frozen=True, tag="mask"):
    """Masks the body."""

    rules: bytes  # a MaskConfig as JSON


class MaskStreamTask(Struct, frozen=True, tag="mask_stream"):
    """Masks the body, frames of a stream, in the state in which the frames before left a StreamMasker."""

    state: bytes


class WriteTask(Struct, frozen=True, tag="write"):
    """Makes of the body, a request to a function, what a variant makes of it."""

    function: str
    config: bytes  # the FunctionConfig as JSON
    dialect: str
    variant: str
    input: bytes | None  # the request's `narthex::input`


Task: TypeAlias = MaskTask | MaskStreamTask | WriteTask
# What ended the work: a bound, its caller, or a fault of the process.
Bound = Literal["processor", "memory", "caller", "fault"]


class Outcome(Struct, frozen=True):
    """How a task ended."""

    bound: Bound | None = None  # None: the work is done
    refusal: str | None = None  # what is wrong with the request, at `param`
    param: str | None = None
    state: bytes = b""  # of the StreamMasker, for the next frames


def encode_head(head: Task | Outcome, body_bytes: int) -> bytes:
    raw = msgspec.msgpack.encode(head)
    return len(raw).to_bytes(4, "big") + body_bytes.to_bytes(8, "big") + raw


def decode_lengths(lengths: bytes) -> tuple[int, int]:
    """The bytes of the head and of the body."""
    return int.from_bytes(lengths[:4], "big"), int.from_bytes(lengths[4:], "big")
