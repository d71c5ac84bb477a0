"""Late records: a request from before an erasure whose record comes after it, say of a machine that was off, is erased as it is stored."""

import datetime
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

import msgspec
from msgspec.structs import replace

from app.recording.erasure.episodes import note_erased_episodes
from app.recording.erasure.erased_rows import ERASED_CONTENT, erase_exchange, erase_row, lost_episodes
from app.recording.erasure.feedback import erase_feedback_on_episodes
from app.recording.erasure.hashes import Selector, hash_of, read_key
from app.recording.erasure.inferences import find_erased, lock_made_of
from app.recording.erasure.orders import Order, newest_number, note_arrivals, read_orders_after
from app.recording.erasure.steps import erase_made
from app.recording.rows.inference_rows import content_row
from app.recording.spool.feedback_records import erase_feedback, feedback_row
from app.recording.writer.batch import FeedbackRow, InferenceRow
from app.settings import Settings
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.locks import WRITERS_LOCK
from app.store.postgres.partitions import OLDEST_DAYS, Connection

_ID, _TEAM, _EPISODE, _TAGS, _END_USER, _CONTENT_TEAM = (
    INFERENCE_COLUMNS.index(name) for name in ("id", "team_id", "episode_id", "tags", "end_user", "content_team_id")
)
_ORIGINAL, _ERASED_AT = INFERENCE_COLUMNS.index("original_id"), INFERENCE_COLUMNS.index("erased_at")
_decode_tags = msgspec.json.Decoder(dict[str, str]).decode


class LateErasure:
    """The orders, as one connection of a writer knows them. Older ones than any record that a writer stores are not held."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self._connection = connection
        self._oldest = datetime.timedelta(days=max(settings.keep_inferences_days, OLDEST_DAYS) + 2)
        self._number = 0
        self._key = b""
        self._newest = ""  # inferences with this id and higher are later than every order
        self._by_hash: dict[bytes, list[Order]] = {}
        self._tags: set[str] = set()  # names of tags that orders are about

    async def apply(self, rows: list[InferenceRow]) -> list[InferenceRow]:
        """Returns the rows as they are to be stored, in the transaction that stores them: no order that is
        given meanwhile misses them.
        """
        await self._connection.execute("SELECT pg_advisory_xact_lock_shared($1)", WRITERS_LOCK)
        newest = await newest_number(self._connection)
        if newest > self._number:
            await self._read_orders()
            self._number = max(self._number, newest)  # an old one is not held
        if not self._by_hash:
            return rows
        arrivals: Counter[str] = Counter()
        checked = [self._erase(row, arrivals) if row.inference[_ID].lower() < self._newest else row for row in rows]
        await note_arrivals(self._connection, arrivals)
        if arrivals:
            lost = lost_episodes((row.inference for row in rows), (row.inference for row in checked))
            await note_erased_episodes(self._connection, lost)
            await erase_feedback_on_episodes(self._connection, lost, (), self._newest)
            changed = [row for row, left in zip(rows, checked, strict=True) if row is not left]
            erased = {(str(UUID(row.inference[_TEAM])), str(UUID(row.inference[_EPISODE]))) for row in changed}
            await erase_feedback_on_episodes(self._connection, erased - lost, (), self._newest, lose_id=False)
            made = await lock_made_of(self._connection, [row.inference[_ID] for row in changed])
            await erase_made(self._connection, made, (), datetime.datetime.now(datetime.UTC))
        return await self._erase_repetitions(checked)

    async def _erase_repetitions(self, rows: list[InferenceRow]) -> list[InferenceRow]:
        """Erases what the gateway made of an inference that is erased by now, or by this very batch."""
        originals = {str(UUID(row.inference[_ORIGINAL])) for row in rows if row.inference[_ORIGINAL]}
        if not originals:
            return rows
        erased = await find_erased(self._connection, originals)
        erased |= {str(UUID(row.inference[_ID])) for row in rows if row.inference[_ERASED_AT] is not None}
        now = datetime.datetime.now(datetime.UTC)
        return [_erased(row, (), now) if _is_made_of(row, erased) else row for row in rows]

    async def apply_to_feedback(self, rows: list[FeedbackRow]) -> list[FeedbackRow]:
        """Erases feedback that an order reaches by its episode or by its tags; to be called after apply().

        The inference of any other feedback says whether it is erased.
        """
        if not self._by_hash:
            return rows
        arrivals: Counter[str] = Counter()
        checked = [self._erase_feedback(row, arrivals) if row.feedback.id < self._newest else row for row in rows]
        await note_arrivals(self._connection, arrivals)
        return checked

    def _erase_feedback(self, row: FeedbackRow, arrivals: Counter[str]) -> FeedbackRow:
        feedback = row.feedback
        is_of_episode = feedback.level == "episode" and feedback.target_id is not None
        selectors = [Selector("episode", None, feedback.target_id or "")] if is_of_episode else []
        selectors += [Selector("tag", name, value) for name, value in feedback.tags.items() if name in self._tags]
        orders = self._find_orders(selectors, feedback.id, feedback.team_id)
        if not orders:
            return row
        arrivals.update(order.id for order in orders)
        erased = erase_feedback(feedback, _kept_tags(orders), erase_episode=any(order.kind == "episode" for order in orders))
        return replace(row, feedback=erased, row=feedback_row(erased, datetime.datetime.now(datetime.UTC)))

    async def _read_orders(self) -> None:
        self._key = await read_key(self._connection) or b""
        since = datetime.datetime.now(datetime.UTC) - self._oldest
        for order in await read_orders_after(self._connection, self._number, since):
            self._number = order.number
            self._newest = max(self._newest, order.before)
            self._by_hash.setdefault(order.hash, []).append(order)
            if order.tag is not None:
                self._tags.add(order.tag)

    def _erase(self, row: InferenceRow, arrivals: Counter[str]) -> InferenceRow:
        orders = self._orders_about(row.inference)
        if not orders:
            return row
        arrivals.update(order.id for order in orders)
        keep_tags = _kept_tags(orders)
        now, is_episode = datetime.datetime.now(datetime.UTC), any(order.kind == "episode" for order in orders)
        return _erased(row, keep_tags, now, erase_episode=is_episode)

    def _orders_about(self, inference: tuple[Any, ...]) -> Sequence[Order]:
        id, team_id = inference[_ID].lower(), str(UUID(inference[_CONTENT_TEAM] or inference[_TEAM]))
        selectors = [Selector("episode", None, str(UUID(inference[_EPISODE])))]
        if inference[_END_USER]:
            selectors.append(Selector("end_user", None, inference[_END_USER]))
        tags: Mapping[str, str] = {} if inference[_TAGS] is None or not self._tags else _decode_tags(inference[_TAGS])
        selectors += [Selector("tag", name, value) for name, value in tags.items() if name in self._tags]
        return self._find_orders(selectors, id, team_id)

    def _find_orders(self, selectors: Sequence[Selector], id: str, team_id: str) -> Sequence[Order]:
        return [
            order
            for selector in selectors
            for order in self._by_hash.get(hash_of(self._key, selector), ())
            if id < order.before and order.team_id in (None, team_id)
        ]


def _erased(row: InferenceRow, keep_tags: Collection[str], now: datetime.datetime, *, erase_episode: bool = False) -> InferenceRow:
    return replace(
        row,
        inference=erase_row(row.inference, keep_tags, now, erase_episode=erase_episode),
        content=content_row(row.inference[_ID], ERASED_CONTENT),
        exchange=None if row.exchange is None else erase_exchange(row.exchange),
    )


def _is_made_of(row: InferenceRow, erased: Collection[str]) -> bool:
    original = row.inference[_ORIGINAL]
    return bool(original) and row.inference[_ERASED_AT] is None and str(UUID(original)) in erased


def _kept_tags(orders: Sequence[Order]) -> set[str]:
    keep_tags = set(orders[0].keep_tags).intersection(*(order.keep_tags for order in orders))
    return keep_tags - {order.tag for order in orders if order.tag is not None}
