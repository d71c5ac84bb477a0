"""A spool record: one exchange on its way into the spool."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, Protocol, TypeVar

import msgspec

from app.domain.callers import ContentPolicy
from app.domain.exchange import Exchange
from app.recording.content.event_frames import complete_frames_bytes, is_event_stream
from app.recording.content.masking import MaskRules
from app.recording.content.redaction import redact
from app.recording.content.stream_masking import StreamMasker, mask
from app.recording.spool.open_segment import OpenSegment
from app.recording.spool.segment_format import PART_OF_REQUEST, PART_OF_RESPONSE
from providers.canonical.errors import Unavailable, WorkTooLarge

P = ParamSpec("P")
T = TypeVar("T")


# A stream is masked in such pieces: each takes one or two milliseconds of the event loop.
_MASKED_BYTES = 8 * 1024
_WITHHELD = b"[withheld: %d bytes]"
_WITHHELD_EVENT = b"\ndata: [withheld: %d bytes]\n\n"  # the blank line of the event before may be withheld, too


class LargeWork(Protocol):
    """Work on large bodies: in a thread, in a process, or in pieces at turns of the event loop. app.gateway.large_body implements it.

    mask() and mask_stream() raise WorkTooLarge for what takes longer, or more memory, than it may.
    """

    def mask(self, body: bytes, rules: MaskRules) -> Awaitable[bytes]: ...

    def mask_stream(self, masker: StreamMasker, frames: bytes) -> Awaitable[tuple[StreamMasker, bytes]]:
        """Return a masker that has received these frames, and what its feed() returned; the given masker has
        not received them.
        """
        ...

    def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...

    async def wait_for_loop_turn(self) -> None: ...


class RecordSink(Protocol):
    """The place where records are written: the Spool."""

    def append_part(self, spool_record: "SpoolRecord", kind: int, data: bytes) -> None: ...

    def finish_record(self, spool_record: "SpoolRecord", exchange: Exchange, request: bytes, response: bytes) -> None: ...


class SpoolRecord:
    """One exchange as it is recorded.

    It holds little: content beyond `spool_part_bytes` is written out as parts, and content that the policy forbids is not held. It must
    be closed in any case: until then it may keep a segment from being finished.
    """

    __slots__ = (
        "_mask_rules",
        "_masked",
        "_min_spill_bytes",
        "_part_bytes",
        "_policy",
        "_request",
        "_response",
        "_response_spill_bytes",
        "_spool",
        "_stream_masker",
        "_withheld_bytes",
        "closed",
        "id",
        "is_content_lost",
        "last_part",
        "segment",
    )

    def __init__(self, spool: RecordSink, id: str, policy: ContentPolicy, part_bytes: int, mask_rules: MaskRules | None = None) -> None:
        """Create the record of one exchange. `mask_rules` are those of the policy `masked`."""
        self.id = id
        self.closed = False
        self.is_content_lost = False
        self.last_part = 0
        self.segment: OpenSegment | None = None
        self._spool = spool
        self._policy: ContentPolicy = policy
        self._mask_rules = mask_rules
        self._stream_masker: StreamMasker | None = None  # of a stream that is masked, once a part of it was written
        self._part_bytes = part_bytes
        self._masked = bytearray()  # of that stream, what waits to be a part
        self._response_spill_bytes = self._min_spill_bytes = min(part_bytes, _MASKED_BYTES) if policy == "masked" else part_bytes
        self._withheld_bytes = 0  # of a stream, from the first frame on that could not be masked
        self._request: bytes | bytearray = b""
        self._response: bytes | bytearray = b""

    @property
    def is_masked(self) -> bool:
        """True if recording a body takes time for each of its bytes."""
        return self._policy == "masked"

    @property
    def part_key(self) -> bytes:
        """The key that the parts of this exchange share."""
        return bytes.fromhex(self.id.replace("-", ""))

    def append_request(self, data: bytes) -> None:
        """Add the caller's body, at once or in pieces."""
        if self._policy == "none":
            return
        self._request = _append(self._request, data)
        # Redaction and masking need the complete body.
        if len(self._request) > self._part_bytes and self._policy == "full":
            self._request = self._spill(PART_OF_REQUEST, self._request)

    def append_response(self, data: bytes) -> None:
        """Add a block of the response, as it is sent to the caller."""
        if self._policy == "none":
            return
        if type(self._response) is bytearray:  # as with each chunk of a stream, without a call
            self._response += data
        else:
            self._response = _append(self._response, data)
        if len(self._response) > self._response_spill_bytes:
            self._spill_response()

    async def append_large_request(self, body: bytes, large_work: LargeWork) -> None:
        """Add the caller's whole body, as append_request() does, without holding up the event loop.

        What cannot be masked in time, or before it is cancelled, is withheld.
        """
        if self._policy == "none":
            return
        self._request = body  # should the process end meanwhile, close() redacts it
        if self._policy == "masked":
            try:
                body = await self._mask_large(body, large_work)
            except (WorkTooLarge, asyncio.CancelledError):
                self._request = b""
                self._spill(PART_OF_REQUEST, _WITHHELD % len(body), include_tail=True)
                raise
        elif self._policy != "full":
            body = await large_work.run(self._protect, body)
        self._request = b""
        await self._spill_in_turns(PART_OF_REQUEST, body, large_work)

    async def append_large_response(self, data: bytes, large_work: LargeWork) -> None:
        """Add a whole response, or whole frames of a stream, as append_response() does, without holding up
        the event loop.

        A response that cannot be masked is withheld. Of a stream, everything is withheld from the newest
        frames on that are not written: its caller has it already. So are frames whose masking is cancelled.
        """
        if self._policy == "none":
            return
        if self._response:
            data = bytes(self._response) + data
        self._response = data  # should the process end meanwhile, close() protects it
        if self._policy == "masked" and (self._stream_masker is not None or is_event_stream(data)):
            self._response = b""
            data = await self._mask_large_frames(data, large_work)
        elif self._policy == "masked":
            try:
                data = await self._mask_large(data, large_work)
            except (WorkTooLarge, Unavailable):
                data = _WITHHELD % len(data)
        elif self._policy != "full":
            data = await large_work.run(self._protect, data)
        self._response = b""
        await self._spill_in_turns(PART_OF_RESPONSE, data, large_work)

    def close(self, exchange: Exchange) -> None:
        """Write the record that ends the exchange. A second call does nothing."""
        if self.closed:
            return
        self.closed = True
        request, response = self._request, self._response
        self._request = self._response = b""
        if exchange.content != self._policy:
            exchange = msgspec.structs.replace(exchange, content=self._policy)
        if self._policy in ("redacted", "masked"):
            masker, self._stream_masker = self._stream_masker, None
            request = self._protect(bytes(request))
            if masker is None:
                response = self._protect(bytes(response))
            elif self._withheld_bytes:
                response = bytes(self._masked) + _WITHHELD_EVENT % (self._withheld_bytes + len(response))
            else:
                response = b"".join((self._masked, masker.feed(bytes(response)), masker.finish()))
            request = self._spill(PART_OF_REQUEST, request) if len(request) > self._part_bytes else request
            response = self._spill(PART_OF_RESPONSE, response) if len(response) > self._part_bytes else response
        self._spool.finish_record(self, exchange, bytes(request), bytes(response))

    def _protect(self, body: bytes) -> bytes:
        """Return a whole body as the policy, which is neither `full` nor `none`, keeps it."""
        return redact(body) if self._mask_rules is None else mask(body, self._mask_rules)

    async def _mask_large(self, body: bytes, large_work: LargeWork) -> bytes:
        assert self._mask_rules is not None, "the policy `masked` comes with rules"
        return await large_work.mask(body, self._mask_rules)

    async def _mask_large_frames(self, frames: bytes, large_work: LargeWork) -> bytes:
        """Return what is final, and not written yet."""
        masker = self._masker()
        if self._withheld_bytes:
            self._withheld_bytes += len(frames)
            return b""
        try:
            self._stream_masker, masked = await large_work.mask_stream(masker, frames)
        except BaseException as fault:
            # With the frames before it that are held: a match may be split across them.
            self._withheld_bytes = masker.held_frames_bytes + len(frames)
            self._response_spill_bytes = 0
            if not isinstance(fault, WorkTooLarge | Unavailable):
                raise
            return b""
        masked = bytes(self._masked) + masked
        self._masked = bytearray()
        return masked

    def _masker(self) -> StreamMasker:
        if self._stream_masker is None:
            assert self._mask_rules is not None, "the policy `masked` comes with rules"
            self._stream_masker = StreamMasker(self._mask_rules)
        return self._stream_masker

    def _spill_response(self) -> None:
        if self._policy == "full":
            self._response = self._spill(PART_OF_RESPONSE, self._response)
            return
        if self._withheld_bytes:
            self._withheld_bytes += len(self._response)
            self._response = b""
            return
        frames_end = complete_frames_bytes(self._response)
        if frames_end:
            frames = bytes(self._response[:frames_end])
            if self._policy == "masked":
                self._masked += self._masker().feed(frames)
                if len(self._masked) > self._part_bytes:
                    self._masked = bytearray(self._spill(PART_OF_RESPONSE, self._masked))
            else:
                self._spill(PART_OF_RESPONSE, redact(frames), include_tail=True)
            self._response = self._response[frames_end:]
        # A body without frames is held until it is complete; searching it for a frame's end after each block would cost more each time.
        self._response_spill_bytes = max(self._min_spill_bytes, 2 * len(self._response))

    def _spill(self, kind: int, data: bytes | bytearray, include_tail: bool = False) -> bytes:
        """Write parts of `spool_part_bytes`; returns what is left."""
        end = len(data) if include_tail else len(data) - len(data) % self._part_bytes
        view = memoryview(data)
        for start in range(0, end, self._part_bytes):
            if self.is_content_lost:
                return b""
            self._spool.append_part(self, kind, bytes(view[start : min(end, start + self._part_bytes)]))
        return b"" if self.is_content_lost else bytes(view[end:])

    async def _spill_in_turns(self, kind: int, data: bytes, large_work: LargeWork) -> None:
        """Write all of it, part by part at turns of the event loop.

        If the process ends meanwhile, what is left is written at once.
        """
        start = 0
        try:
            while len(data) - start > self._part_bytes and not self.is_content_lost:
                self._spool.append_part(self, kind, data[start : start + self._part_bytes])
                start += self._part_bytes
                await large_work.wait_for_loop_turn()
        finally:
            self._spill(kind, data[start:], include_tail=True)


def _append(buffer: bytes | bytearray, data: bytes) -> bytes | bytearray:
    if not buffer:
        return data
    if type(buffer) is bytearray:
        buffer += data
        return buffer
    joined = bytearray(buffer)
    joined += data
    return joined
