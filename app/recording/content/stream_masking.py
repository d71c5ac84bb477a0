"""Masking of streams: what the rules of a team find in the texts that a stream's reader puts together from its frames."""

from collections import deque

import msgspec
from msgspec import Struct, field

from app.domain.callers import MaskConfig
from app.recording.content.event_frames import DONE, EventData, is_event_stream, split_frames
from app.recording.content.masking import (
    DECODING_ERRORS,
    Found,
    MaskRules,
    Path,
    compile_rules,
    join_overlapping,
    marker,
    mask_json,
    rewrite,
)

# Frames are held until so many bytes of later ones are there, so that a match which is split across them is found.
HOLD_BYTES = 16 * 1024
_CONTEXT_BYTES = 64  # of a text before its first frame that is held: patterns look at what precedes a match


class _Text(Struct):
    """A text that a reader puts together: one of several choices, a content block, the arguments of a call.

    Offsets count from its beginning, and `data` begins at `start`. `found` holds what is known to be masked
    beyond `start`; `is_searched` says that nothing else is there. Matches have their marker up to
    `marked_to`. `clean` is the newest piece in which nothing was found: many fields are the same in each
    frame.
    """

    data: bytearray = field(default_factory=bytearray)
    start: int = 0
    found: list[Found] = []
    is_searched: bool = False
    marked_to: int = 0
    clean: str = ""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class _Piece(Struct, frozen=True):
    """The part of a text that one frame adds."""

    text: _Text
    begin: int
    end: int


class _Frame(Struct, frozen=True):
    """A line or an event's data.

    Its pieces are in the order in which rewrite() visits them. `has_masked_name` says that the name of a
    field is masked.
    """

    data: bytes
    is_event: bool = False
    pieces: tuple[_Piece, ...] = ()
    has_masked_name: bool = False


class _StoredFrame(Struct, frozen=True, array_like=True):
    """A _Frame whose pieces name their text by its place in the state."""

    data: bytes
    is_event: bool
    pieces: list[tuple[int, int, int]]
    has_masked_name: bool


class _State(Struct, frozen=True, array_like=True):
    """The state of a StreamMasker. `rules` is a MaskConfig as JSON."""

    rules: bytes
    texts: list[tuple[tuple[str | int, ...], _Text]]
    frames: list[_StoredFrame]


_decode_state = msgspec.msgpack.Decoder(_State).decode


class StreamMasker:
    """Masks a stream as it comes. feed() complete frames; it returns frames that are final, a little later. finish() returns the rest.

    Memory is bounded by twice HOLD_BYTES, and the largest frame. A match is found if fewer than HOLD_BYTES of frames are between its
    ends.
    """

    def __init__(self, rules: MaskRules) -> None:
        self._rules = rules
        self._frames: deque[_Frame] = deque()
        self._held_bytes = 0
        self._texts: dict[Path, _Text] = {}

    def feed(self, data: bytes) -> bytes:
        for each in split_frames(data):
            self._add(_Frame(each) if not isinstance(each, EventData) else self._read(each.data))
        return self._release(HOLD_BYTES) if self._held_bytes > 2 * HOLD_BYTES else b""

    def finish(self) -> bytes:
        return self._release(0)

    @property
    def held_frames_bytes(self) -> int:
        return self._held_bytes

    @property
    def held_bytes(self) -> int:
        """The number of bytes of the stream that it holds: frames, and the texts in them."""
        return self._held_bytes + sum([len(text.data) for text in self._texts.values()])

    def encode(self) -> bytes:
        """Returns the masker's state, with which another process can go on."""
        places = {id(text): place for place, text in enumerate(self._texts.values())}
        frames = [
            _StoredFrame(
                frame.data,
                frame.is_event,
                [(places[id(piece.text)], piece.begin, piece.end) for piece in frame.pieces],
                frame.has_masked_name,
            )
            for frame in self._frames
        ]
        return msgspec.msgpack.encode(_State(self._rules.config, list(self._texts.items()), frames))

    @staticmethod
    def decode(state: bytes) -> "StreamMasker":
        decoded = _decode_state(state)
        masker = StreamMasker(compile_rules(msgspec.json.decode(decoded.rules, type=MaskConfig)))
        masker._texts = dict(decoded.texts)
        texts = list(masker._texts.values())
        for each in decoded.frames:
            pieces = tuple([_Piece(texts[place], begin, end) for place, begin, end in each.pieces])
            masker._add(_Frame(each.data, each.is_event, pieces, each.has_masked_name))
        return masker

    def _add(self, frame: _Frame) -> None:
        self._frames.append(frame)
        self._held_bytes += len(frame.data)

    def _read(self, data: bytes) -> _Frame:
        if data == DONE:
            return _Frame(data, is_event=True)
        pieces: list[_Piece] = []

        def collect(text: str, path: Path) -> str:
            assembled = self._texts.get(path)
            if assembled is None:
                assembled = self._texts[path] = _Text()
            begin = assembled.end
            encoded = text.encode("utf-8", "surrogatepass")
            assembled.data += encoded
            # A text of one piece, as many are that repeat a whole answer, is not searched again.
            assembled.is_searched = begin == 0
            if text != assembled.clean:
                # As it stands alone, too: not every text is a part of a longer one.
                alone = self._rules.find(encoded)
                if alone:
                    assembled.found = [*assembled.found, *(Found(begin + each.begin, begin + each.end, each.rule) for each in alone)]
                else:
                    assembled.clean = text
            pieces.append(_Piece(assembled, begin, assembled.end))
            return text

        try:
            document = msgspec.json.decode(data)
        except DECODING_ERRORS:
            return _Frame(b"[withheld: %d bytes]" % len(data), is_event=True)
        named = rewrite(document, collect, self._rules.mask_name)
        # Of several lines, each would be data of its own.
        return _Frame(msgspec.json.encode(document) if b"\n" in data else data, True, tuple(pieces), named is not document)

    def _release(self, keep_bytes: int) -> bytes:
        """Returns the oldest frames, as few as must go for no more than `keep_bytes` to be held."""
        for text in self._texts.values():
            if text.is_searched:
                continue
            text.is_searched = True
            found = [Found(text.start + each.begin, text.start + each.end, each.rule) for each in self._rules.find(bytes(text.data))]
            text.found = join_overlapping([*text.found, *found])
        released: list[bytes] = []
        while self._frames and self._held_bytes > keep_bytes:
            frame = self._frames.popleft()
            self._held_bytes -= len(frame.data)
            released.append(b"data: " + _mask_frame(frame, self._rules) + b"\n" if frame.is_event else frame.data)
        self._forget_released()
        return b"".join(released)

    def _forget_released(self) -> None:
        first_held: dict[int, int] = {}
        for frame in self._frames:
            for piece in frame.pieces:
                first_held.setdefault(id(piece.text), piece.begin)
        self._texts = {path: text for path, text in self._texts.items() if id(text) in first_held}
        for text in self._texts.values():
            begin = first_held[id(text)]
            cut = max(0, begin - _CONTEXT_BYTES - text.start)
            del text.data[:cut]
            text.start += cut
            text.found = [each for each in text.found if each.end > begin]


def _mask_frame(frame: _Frame, rules: MaskRules) -> bytes:
    is_clean = all([each.begin >= piece.end or each.end <= piece.begin for piece in frame.pieces for each in piece.text.found])
    if is_clean and not frame.has_masked_name:
        return frame.data
    pieces, document = iter(frame.pieces), msgspec.json.decode(frame.data)
    return msgspec.json.encode(rewrite(document, lambda text, _: _mask_piece(next(pieces), text), rules.mask_name))


def _mask_piece(piece: _Piece, text: str) -> str:
    """Returns what is left of a piece, with a marker where a match begins."""
    found = [each for each in piece.text.found if each.begin < piece.end and each.end > piece.begin]
    if not found:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    kept: list[bytes] = []
    end = piece.begin
    for each in found:
        kept.append(encoded[end - piece.begin : max(each.begin, piece.begin) - piece.begin])
        if each.begin >= piece.text.marked_to:
            kept.append(marker(each.rule))
            piece.text.marked_to = each.begin + 1
        end = min(each.end, piece.end)
    return b"".join((*kept, encoded[end - piece.begin :])).decode("utf-8", "replace")


def mask(data: bytes, rules: MaskRules) -> bytes:
    """A whole body, JSON or server-sent events, without what the rules find; one that is neither is withheld completely."""
    if not is_event_stream(data):
        return mask_json(data, rules)
    masker = StreamMasker(rules)
    return masker.feed(data) + masker.finish()
