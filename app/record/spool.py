"""The spool: what was answered, on this machine's disk before the caller has its last byte. The writer takes it from there."""

import logging
import time
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from app.domain import ContentPolicy, Exchange
from app.record.durability import Durability
from app.record.encoding import encoded
from app.record.entry import Entry
from app.record.growing import Growing
from app.record.segment import EXCHANGE, HEAD_BYTES, HEADER, LOST, MAX_BODY, listing, made_at_ms, pack_exchange, pack_part
from app.record.space import Space
from app.record.status import read_status
from app.settings import Settings
from providers.turn import Turn

logger = logging.getLogger(__name__)

WRITER_SILENT_S = 5.0
_AT_ONCE = 256  # buffers go two by two into one write, of which a kernel takes 1024


class SpoolFull(Exception):
    """A new request cannot be recorded, so it is not taken. The message is for its caller."""


class SpoolStats(Struct, frozen=True):
    """`size_bytes` and `oldest_s` (0: all is in Postgres) are of the whole folder, the rest counts what this worker has done."""

    size_bytes: int
    lost_content: int
    lost_records: int
    oldest_s: float
    failed_syncs: int


class _Ended(NamedTuple):
    entry: Entry
    exchange: Exchange
    ask: bytes
    reply: bytes


class Spool:
    """One per worker process, used by its event loop alone; it has a segment of its own in the folder that all workers share.

    admit() before a request is taken, open() once it has a plan, then the Entry's ask(), reply() and close(), then `await kept()`,
    and only then the terminal frame. No full disk raises from these: the exchange was admitted, so what can be kept of it is kept (its
    metadata, in space allocated ahead) and what cannot is counted.

    A segment that is full is retired, but stays open until those exchanges have ended that have parts in it.

    With a `turn`, by which the answers leave, what ends in one turn of the loop is written at once when the turn ends, before they do.
    """

    def __init__(self, folder: Path, settings: Settings, turn: Turn | None = None) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._home = settings.home
        self._refuses = settings.spool_when_full == "refuse"
        self._segment_bytes = settings.spool_segment_bytes
        self._part_bytes = max(1, min(settings.spool_part_bytes, MAX_BODY // 8))
        self._reserve_bytes = settings.spool_reserve_bytes
        self._durability = Durability(settings.spool_fsync, settings.spool_group_ms)
        self._space = Space(folder, settings.spool_max_bytes, settings.spool_reserve_bytes)
        self._lost_content = 0
        self._lost_records = 0
        self._segment: Growing | None = None
        self._reserve: Growing | None = None
        self._complained = False
        self._turn = turn
        self._ended: list[_Ended] = []
        self._look()
        try:
            self._current()
        except OSError as error:
            self._failed(error)

    def admit(self) -> None:
        """Raises SpoolFull where the setting says that unrecorded requests are refused, and there is no space to record one."""
        if self._space.due():
            self._look()
        if self._refuses and self._full:
            raise SpoolFull("This gateway cannot record requests at the moment: its spool is full. Try again later.")

    def open(self, id: str, policy: ContentPolicy) -> Entry:
        return Entry(self, id, policy, self._part_bytes)

    async def kept(self) -> None:
        """Returns once everything closed so far is as durable as `spool_fsync` says, or will be when the turn ends."""
        if self._durability.waits:
            self._write_down()
        await self._durability.kept()

    def stats(self) -> SpoolStats:
        if self._space.due():
            self._look()
        return SpoolStats(self._space.size_bytes, self._lost_content, self._lost_records, self._oldest_s(), self._durability.failed)

    def close(self) -> None:
        """Lets go of the segments, for the writer to finish them; those in which an exchange has parts when that has ended."""
        self._write_down()
        self._durability.close()
        for segment in (self._segment, self._reserve):
            if segment is not None:
                segment.retire()
        self._segment = self._reserve = None

    @property
    def _full(self) -> bool:
        return self._space.disk_is_full or self._space.is_over_bound

    def part(self, entry: Entry, kind: int, data: bytes) -> None:
        """For Entry: spills `data`, or marks the entry's content as lost."""
        if self._full and not self._refuses:
            self._lose_content(entry)
            return
        body = pack_part(entry.key, entry.last_part) + data
        try:
            segment = entry.segment or self._current()
            entry.last_part = segment.append(kind, 0, body)
        except OSError as error:
            self._failed(error)
            self._lose_content(entry)
            return
        if entry.segment is None:
            entry.segment = segment
            segment.hold()
        self._grew(segment, len(body))

    def end(self, entry: Entry, exchange: Exchange, ask: bytes, reply: bytes) -> None:
        """For Entry: the record that ends it."""
        self._ended.append(_Ended(entry, exchange, ask, reply))
        if self._turn is None:
            self._write_down()
        elif len(self._ended) == 1:
            self._turn.first(self._write_down)

    def _write_down(self) -> None:
        ended, self._ended = self._ended, []
        for start in range(0, len(ended), _AT_ONCE):
            some = ended[start : start + _AT_ONCE]
            if len(some) == 1 or not self._end_together(some):
                for each in some:
                    self._end(*each)

    def _end_together(self, some: "list[_Ended]") -> bool:
        """Whether it did: what needs care (parts in another segment, a full disk, a record that cannot be) is for _end()."""
        if self._full or self._segment is None or any(each.entry.is_lost or each.entry.segment is not None for each in some):
            return False
        try:
            bodies = [_body(encoded(each.exchange), each.ask, each.reply) for each in some]
            if max(map(len, bodies)) > MAX_BODY:
                return False
            self._segment.append_all(EXCHANGE, bodies)
        except Exception:
            return False
        self._grew(self._segment, sum(map(len, bodies)) + HEAD_BYTES * (len(bodies) - 1))
        return True

    def _end(self, entry: Entry, exchange: Exchange, ask: bytes, reply: bytes) -> None:
        try:
            meta = encoded(exchange)
            if len(meta) + len(ask) + len(reply) + 64 > MAX_BODY:
                self._lose_content(entry)
            if not entry.is_lost and (self._refuses or not self._full) and self._end_in_segment(entry, meta, ask, reply):
                return
            if ask or reply or entry.last_part:
                self._lose_content(entry)
            self._end_without_content(entry, meta)
        except Exception:
            self._lost_records += 1
            logger.critical("A record is lost: the exchange %s could not be written down", entry.id, exc_info=True)
        finally:
            if entry.segment is not None:
                entry.segment.release()

    def _end_in_segment(self, entry: Entry, meta: bytes, ask: bytes, reply: bytes) -> bool:
        body = _body(meta, ask, reply, entry.last_part)
        try:
            segment = entry.segment or self._current()
            segment.append(EXCHANGE, 0, body)
        except OSError as error:
            self._failed(error)
            return False
        self._grew(segment, len(body))
        return True

    def _end_without_content(self, entry: Entry, meta: bytes) -> None:
        body = pack_exchange(len(meta), 0, 0) + meta
        flags = LOST if entry.is_lost else 0
        if not self._full:
            try:
                segment = self._current()
                segment.append(EXCHANGE, flags, body)
            except OSError as error:
                self._failed(error)
            else:
                self._grew(segment, len(body))
                return
        try:
            if self._reserve is None:
                raise OSError("There was no space to allocate a reserve")
            self._reserve.append(EXCHANGE, flags, body)
        except OSError:
            self._lost_records += 1
            logger.critical("A record is lost: the spool and its reserve are full, and the exchange %s is not recorded", entry.id)
        else:
            self._durability.changed(self._reserve)

    def _current(self) -> Growing:
        if self._segment is None:
            self._segment = Growing(self._folder)
            self._durability.began(self._folder)
        return self._segment

    def _grew(self, segment: Growing, size_bytes: int) -> None:
        self._space.size_bytes += HEAD_BYTES + size_bytes
        self._durability.changed(segment)
        if segment is self._segment and segment.size >= self._segment_bytes:
            self._retire()

    def _retire(self) -> None:
        if self._segment is not None:
            self._segment.retire()
            self._segment = None

    def _failed(self, error: OSError) -> None:
        self._space.disk_is_full = True
        self._retire()  # should the disk take more again, it may still take none at this place: a limit on the size of files is such a case
        if not self._complained:
            self._complained = True
            logger.error("The spool cannot be written: %s. %s", error, "Refusing requests" if self._refuses else "Keeping metadata only")

    def _look(self) -> None:
        self._space.look()
        if self._space.is_over_bound and self._segment is not None and self._segment.used:
            self._retire()  # the writer frees whole segments only
        if self._full:
            return
        self._complained = False
        if self._reserve is not None and self._reserve.used:
            self._reserve.retire()
            self._reserve = None
        if self._reserve is None and self._reserve_bytes:
            try:
                self._reserve = Growing(self._folder, self._reserve_bytes)
                self._durability.began(self._folder)
            except OSError as error:
                logger.warning("No space for the spool's reserve of %d bytes: %s", self._reserve_bytes, error)

    def _lose_content(self, entry: Entry) -> None:
        if not entry.is_lost:
            entry.is_lost = True
            self._lost_content += 1

    def _oldest_s(self) -> float:
        now = time.time()
        status = read_status(self._home)
        segments = [each for each in listing(self._folder) if not each.reserved and each.size > len(HEADER)]
        if status is None:
            return now - min((made_at_ms(each.name) for each in segments), default=now * 1000) / 1000
        if status.oldest_s:
            return status.oldest_s + now - status.at
        # All was in Postgres when the writer last said something. If it is silent since, what came meanwhile waits.
        is_silent = now - status.at > WRITER_SILENT_S and any(each.changed_at > status.at for each in segments)
        return now - status.at if is_silent else 0.0


def _body(meta: bytes, ask: bytes, reply: bytes, last_part: int = 0) -> bytes:
    return b"".join((pack_exchange(len(meta), len(ask), last_part), meta, ask, reply))
