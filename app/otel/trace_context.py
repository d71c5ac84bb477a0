"""Trace context: the trace that a request belongs to, as W3C's headers carry it from the caller to engines.

Ids of spans are not kept: they follow from the inference's id, so that whoever has the record of an exchange can name its spans.

Source: https://www.w3.org/TR/trace-context-2/, read 2026-11.
"""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

# Version 00 ends after the flags; of later versions only what 00 has is read.
_TRACEPARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})((?:-[!-~]{0,200})?)", re.DOTALL
)
_STATE_MEMBER = re.compile(rb"[a-z0-9][a-z0-9_*/@-]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]")
_MAX_STATE_BYTES = 512
_MAX_STATE_MEMBERS = 32
_SAMPLED, _RANDOM = 0x01, 0x02

_RANDOM_BITS = 48
_MASK = 2**64 - 1


class TraceContext(Struct, frozen=True):
    """The caller's trace, or one that begins here."""

    trace_id: str
    parent_span_id: str | None  # the caller's span; None: the trace begins here
    sampled: bool  # whether its spans are kept
    flags: int  # those that are passed on
    state: bytes = b""  # the header tracestate, b"" without one
    # whether engines get the span of the attempt as their parent; False: the caller's, as no spans are exported from here
    replaces_parent: bool = False

    def header_lines(self, inference_id: str, started_us: int) -> bytes:
        """The header lines for an engine. `started_us` is that of the attempt, as in its record."""
        parent = self.parent_span_id
        if parent is None or self.replaces_parent:
            parent = attempt_span_id(inference_id, started_us)
        lines = b"traceparent: 00-%b-%b-%02x\r\n" % (self.trace_id.encode("ascii"), parent.encode("ascii"), self.flags)
        return lines + b"tracestate: %b\r\n" % self.state if self.state else lines


class Tracing:
    """Finds the trace that a request belongs to.

    `exports` says whether spans are exported from here. `share` is the part of the requests without a trace
    that begin one.
    """

    def __init__(self, *, exports: bool, share: float) -> None:
        self._exports = exports
        self._threshold = int(share * 2**_RANDOM_BITS) if exports else 0
        self.begins_traces = self._threshold > 0  # whether requests without a trace may get one

    def trace_of(
        self, inference_id: str, headers: Mapping[bytes, bytes], raw_headers: Sequence[tuple[bytes, bytes]]
    ) -> TraceContext | None:
        """The caller's trace, sampled as the caller says, or one that begins here; None: the request belongs to none."""
        if b"traceparent" in headers:
            trace = read_trace_context(headers, raw_headers)
            if trace is not None:
                return replace(trace, replaces_parent=True) if self._exports and trace.sampled else trace
        # The end of a UUIDv7 is random, as that of a trace's id should be: the inference's id serves as the latter, too.
        if not self._threshold or int(inference_id[24:], 16) >= self._threshold:
            return None
        return TraceContext(inference_id.replace("-", ""), None, True, _SAMPLED | _RANDOM, replaces_parent=True)


def read_trace_context(headers: Mapping[bytes, bytes], raw_headers: Sequence[tuple[bytes, bytes]]) -> TraceContext | None:
    """The caller's trace; None: it sends none, or one that is malformed. `raw_headers` are all as they came, names in lower case."""
    value = headers.get(b"traceparent")
    if value is None:
        return None
    match = _TRACEPARENT.fullmatch(value.strip(b" \t"))
    if match is None or (match[1] == b"00" and match[5]) or sum([name == b"traceparent" for name, _ in raw_headers]) > 1:
        return None
    flags = int(match[4], 16) & (_SAMPLED | _RANDOM)
    state = _read_state(raw_headers) if b"tracestate" in headers else b""
    return TraceContext(match[2].decode("ascii"), match[3].decode("ascii"), bool(flags & _SAMPLED), flags, state)


def _read_state(raw_headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """The newest members as far as they fit; b"" if one of them is malformed."""
    kept: list[bytes] = []
    size = -1
    joined = b",".join([value for name, value in raw_headers if name == b"tracestate"])
    for member in joined[: 16 * _MAX_STATE_BYTES].split(b","):
        member = member.strip(b" \t")
        if not member:
            continue
        if len(kept) == _MAX_STATE_MEMBERS or size + 1 + len(member) > _MAX_STATE_BYTES:
            break
        if _STATE_MEMBER.fullmatch(member) is None:
            return b""
        kept.append(member)
        size += 1 + len(member)
    return b",".join(kept)


def server_span_id(inference_id: str) -> str:
    """The span of the whole request: the random half of the inference's id."""
    return inference_id[19:23] + inference_id[24:]


def inference_span_id(inference_id: str) -> str:
    """The span of the inference, with all of its attempts."""
    return _derive(inference_id, 0)


def attempt_span_id(inference_id: str, started_us: int) -> str:
    """The span of the attempt that began then, in microseconds after the request's start."""
    return _derive(inference_id, started_us + 1)


def _derive(inference_id: str, number: int) -> str:
    # splitmix64: a bijection, so that spans of one request differ. https://prng.di.unimi.it/splitmix64.c, read 2026-11.
    mixed = (int(server_span_id(inference_id), 16) + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return f"{mixed ^ (mixed >> 31) or 1:016x}"
