"""The steps of an erasure. Each does one small piece of its work in a transaction and says where to go on: a kill loses one piece."""

import datetime
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from app.recording.erasure.copies import CopyStore
from app.recording.erasure.datasets import FIRST_DATASET_SOURCE, erase_dataset_rows, erase_selected_tag, wait_for_dataset_pieces
from app.recording.erasure.episodes import note_erased_episodes
from app.recording.erasure.erased_rows import erase_row, lost_episodes
from app.recording.erasure.erasures import FIRST_STEP
from app.recording.erasure.feedback import erase_feedback_on_episodes, erase_some_feedback
from app.recording.erasure.inferences import (
    find_erased,
    id_range,
    list_days,
    lock_made_of,
    lock_made_of_erased,
    lock_matching,
    store_erased,
)
from app.recording.erasure.orders import Order, due_arrivals, forget_arrivals, last_arrival, note_arrivals
from app.recording.erasure.subjects import move_subjects, sweep_subject
from app.recording.erasure.units import erase_units
from app.recording.rows.rollup_sums import sum_lost_subjects
from app.recording.writes.inference_texts import delete_texts
from app.settings import Settings
from app.store.experiment_units.forgotten_units import forget_units
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.locks import WRITERS_LOCK
from app.store.postgres.partitions import DAY_MS, Connection

_EXPERIMENT, _UNIT = (INFERENCE_COLUMNS.index(name) for name in ("experiment", "experiment_unit"))
_ROWS_PER_PIECE = 300
_QUEUED_S = 3600.0  # more than a request waits for a place
_PIECE_S = 0.2  # after which a piece looks for no more
_HOUR_MS = 3_600_000
_LOWEST_ID = "00000000-0000-0000-0000-000000000000"
_WRITERS_LOCK_TIMEOUT = "3s"
_DATASETS_LOCK_TIMEOUT = "20s"
_COUNTING_LOCK_TIMEOUT = "20s"


class Piece(NamedTuple):
    """The result of one piece of work."""

    position: Any  # None if the step is done
    counts: Mapping[str, int] = {}
    continues_at: datetime.datetime | None = None  # None means at once


class Context(Struct, frozen=True):
    """The context of all steps."""

    settings: Settings
    copies: CopyStore
    # so long after a record is stored, a copy of it may still be written to Redis: see settle_s_of()
    settle_s: float


class Step(NamedTuple):
    """A step of an erasure. `work` does one piece of it, in a transaction that holds the order.

    It must do no harm when it is repeated.
    """

    name: str
    work: Callable[[Connection, Context, Order], Awaitable[Piece]]


def settle_s_of(settings: Settings) -> float:
    """Two commands to Redis, each with a wait for a connection and a second try, take less."""
    return max(1.0, 10 * settings.redis_timeout_s)


async def wait_for_writers(connection: Connection, _context: Context, _order: Order) -> Piece:
    """Wait until all batches that were not checked against the order are stored.

    From then on every batch of every writer is checked against it.
    """
    # Writers that come meanwhile queue behind this.
    await connection.execute(f"SET LOCAL lock_timeout = '{_WRITERS_LOCK_TIMEOUT}'")
    await connection.execute("SELECT pg_advisory_xact_lock($1)", WRITERS_LOCK)
    return Piece(None)


async def erase_records(connection: Connection, _context: Context, order: Order, *, again: bool = False) -> Piece:
    """Erase inferences with their content and their part of sums, hour by hour within the days that are
    stored, the newest first.

    With `again`, what is found now, such as rows of a writer of an older version, may have copies that the
    step before did not find.
    """
    days = [day for day in await list_days(connection) if day * DAY_MS <= order.requested_at.timestamp() * 1000]
    day, hour, after = _position(order, days)
    counts: Counter[str] = Counter()
    rows: Sequence[tuple[Any, ...]] = ()
    deadline = time.monotonic() + _PIECE_S
    while not rows and time.monotonic() < deadline:
        if day not in days:
            earlier = _day_before(day, days)
            if earlier is None:
                return Piece(None)
            day, hour, after = earlier, 23, None
        begin_ms = day * DAY_MS + hour * _HOUR_MS
        first, end = id_range(order, begin_ms, begin_ms + _HOUR_MS)
        rows = await lock_matching(connection, order, first if after is None else _next_id(after), end, _ROWS_PER_PIECE)
        if len(rows) == _ROWS_PER_PIECE:
            after = rows[-1][0]
        else:
            day, hour, after = _hour_before(day, hour)
    if rows:
        now = datetime.datetime.now(datetime.UTC)
        erased = [erase_row(row, order.keep_tags, now, erase_episode=order.kind == "episode") for row in rows]
        contents = await store_erased(connection, erased)
        units = [(row[_EXPERIMENT], row[_UNIT]) for row in rows if row[_UNIT] is not None]
        await forget_units(connection, units, inferences=[row[0] for row in rows], keep_tags=order.keep_tags)
        texts = await delete_texts(connection, [row[0] for row in rows])
        lost = lost_episodes(rows, erased)
        await note_erased_episodes(connection, lost)
        feedback = await erase_feedback_on_episodes(connection, lost, order.keep_tags, order.before)
        sums = await move_subjects(connection, sum_lost_subjects(rows, erased))
        counts.update({"inferences": len(rows), "contents": contents, "texts": texts, "sums": sums, "feedback": feedback})
        made = await lock_made_of(connection, [row[0] for row in rows])
        counts.update(await erase_made(connection, made, order.keep_tags, now))
        if again:
            await note_arrivals(connection, {order.id: len(rows) + len(made)})
    return Piece((day, hour, after), counts)


async def erase_made(
    connection: Connection, made: Sequence[tuple[Any, ...]], keep_tags: Collection[str], now: datetime.datetime
) -> Mapping[str, int]:
    """Erase what the gateway made of erased inferences: a replay holds the words of its original.

    Returns counts, by store.
    """
    if not made:
        return {}
    erased = [erase_row(row, keep_tags, now, erase_episode=False) for row in made]
    contents = await store_erased(connection, erased)
    texts = await delete_texts(connection, [row[0] for row in made])
    sums = await move_subjects(connection, sum_lost_subjects(made, erased))
    return {"repetitions": len(made), "contents": contents, "texts": texts, "sums": sums}


async def erase_repetitions(connection: Connection, context: Context, order: Order) -> Piece:
    """Erase what was in progress while its original was erased.

    By now it has ended, and a writer that stores it later sees that its original is erased.
    """
    began = order.requested_at - datetime.timedelta(seconds=context.settings.total_timeout_s + _QUEUED_S)
    made = await lock_made_of_erased(connection, int(began.timestamp() * 1000), _ROWS_PER_PIECE)
    counts = await erase_made(connection, made, order.keep_tags, datetime.datetime.now(datetime.UTC))
    return Piece("more" if len(made) == _ROWS_PER_PIECE else None, counts)


async def erase_feedback(connection: Connection, _context: Context, order: Order) -> Piece:
    """Erase feedback on what is erased, as it may quote it.

    What is stored later is erased when its inference is found.
    """
    last, erased = await erase_some_feedback(connection, order, order.position or _LOWEST_ID)
    return Piece(last, {"feedback": erased})


async def erase_sums(connection: Connection, _context: Context, order: Order) -> Piece:
    """Erase sums by the order's subject whose inferences have expired already."""
    moved = await sweep_subject(connection, order, _ROWS_PER_PIECE)
    return Piece(None if moved < _ROWS_PER_PIECE else "more", {"sums": moved})


async def erase_experiment_units(connection: Connection, _context: Context, order: Order) -> Piece:
    """Erase units of experiments that no inference leads to."""
    # Units are counted for a second or so at a time.
    await connection.execute(f"SET LOCAL lock_timeout = '{_COUNTING_LOCK_TIMEOUT}'")
    return Piece(await erase_units(connection, order, order.position))


async def erase_copies(connection: Connection, context: Context, order: Order) -> Piece:
    """Erase copies in Redis: at once, and again once every request that was in flight has ended and left its
    copy.
    """
    waits = datetime.timedelta(seconds=context.settings.total_timeout_s + context.settle_s)
    now: datetime.datetime = await connection.fetchval("SELECT clock_timestamp()")
    is_due = order.completed_at is not None or now >= order.requested_at + waits
    arrivals = await due_arrivals(connection, order.id, context.settle_s)
    erased = await context.copies.erase(functools.partial(find_erased, connection))
    late = {"late": sum(arrivals.values())} if arrivals else {}
    await forget_arrivals(connection, arrivals)
    if not is_due:
        return Piece("waiting", {**erased, **late}, order.requested_at + waits)
    last = await last_arrival(connection, order.id)
    if last is not None:
        return Piece("waiting", {**erased, **late}, last + datetime.timedelta(seconds=context.settle_s))
    return Piece(None, {**erased, **late})


async def erase_datasets(connection: Connection, _context: Context, order: Order) -> Piece:
    """Erase rows of datasets with any words of what is erased.

    It comes after the records: what is copied from then on is erased already.
    """
    # What holds these locks builds datasets, for a second, and nothing waits for it but this.
    await connection.execute(f"SET LOCAL lock_timeout = '{_DATASETS_LOCK_TIMEOUT}'")
    if order.position is None:
        # A piece of its own: who holds this lock and waits for a version may be waited for by who builds it.
        await wait_for_dataset_pieces(connection)
        return Piece(FIRST_DATASET_SOURCE)
    await erase_selected_tag(connection, order)
    last, erased = await erase_dataset_rows(connection, order, order.position)
    return Piece(last, {"dataset_rows": erased})


# In this order. A store that holds something of users gets a step here, and is counted by app/recording/erasure/check.py.
# But for units of experiments: their hashes cannot be found by that of the order.
STEPS: tuple[Step, ...] = (
    Step(FIRST_STEP, wait_for_writers),
    Step("records", erase_records),
    Step("feedback", erase_feedback),
    Step("datasets", erase_datasets),
    Step("sums", erase_sums),
    Step("units", erase_experiment_units),
    Step("copies", erase_copies),
    Step("records again", functools.partial(erase_records, again=True)),
    Step("repetitions again", erase_repetitions),
    Step("feedback again", erase_feedback),
    Step("datasets again", erase_datasets),
    Step("units again", erase_experiment_units),
    Step("copies again", erase_copies),
)
LAST_STEP = STEPS[-1].name


def step_after(name: str) -> str | None:
    """Return the name of the step after this one, or None if it was the last."""
    names = [step.name for step in STEPS]
    at = names.index(name) + 1
    return names[at] if at < len(names) else None


def find_step(name: str) -> Step:
    return next(step for step in STEPS if step.name == name)


def _position(order: Order, days: Sequence[int]) -> tuple[int, int, str | None]:
    """Return the day and hour to go on with, and the last inference of it that is done."""
    return order.position or (max(days, default=0), 23, None)


def _day_before(day: int, days: Sequence[int]) -> int | None:
    return max((each for each in days if each < day), default=None)


def _hour_before(day: int, hour: int) -> tuple[int, int, str | None]:
    return (day, hour - 1, None) if hour else (day - 1, 23, None)


def _next_id(id: str) -> str:
    digits = f"{int(id.replace('-', ''), 16) + 1:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
