"""Matching of feedback with the inference or episode that it is about, of the same team, whichever of the two is stored first."""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import asyncpg

from app.domain.routing import MODEL_PREFIXES
from app.recording.erasure.episodes import find_erased_episodes
from app.recording.erasure.feedback import erase_by_ids
from app.recording.erasure.hashes import read_key
from app.recording.writes.feedback_pending import Pending, claim_due, postpone, release, stop_waiting, wake
from app.recording.writes.feedback_writes import lock_feedback
from app.store.experiment_units.touched_units import touch_targets
from app.store.postgres.bounded_transactions import bounded_transaction
from app.store.postgres.partitions import Connection
from app.store.records.feedback_targets import Target, TargetKey, find_targets

_MARK = """
    UPDATE feedback SET matched_at = now(), model = matched.model, function = matched.function, variant = matched.variant,
        not_enrolled = matched.not_enrolled
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[]) AS matched (id, model, function, variant, not_enrolled)
    WHERE feedback.id = matched.id AND feedback.id >= $6::uuid AND feedback.id <= $7::uuid
"""


class Matched(NamedTuple):
    """The number of feedback events that were looked for, and of those whose target was found."""

    checked: int
    found: int


async def match_due(connection: Connection, limit: int) -> Matched:
    """Look for the targets of feedback that is due. While it searches it holds no lock: writers may store the targets meanwhile."""
    async with bounded_transaction(connection):
        due = await claim_due(connection, limit)
    if not due:
        return Matched(0, 0)
    try:
        return await _match(connection, due)
    except asyncpg.PostgresError:
        async with bounded_transaction(connection):
            await release(connection, due)
        raise


async def _match(connection: Connection, due: Sequence[Pending]) -> Matched:
    async with bounded_transaction(connection):
        began_at: datetime.datetime = await connection.fetchval("SELECT clock_timestamp()")
        targets = await find_targets(connection, [each.target for each in due], searched=_searched(due))
    found = [(each, targets[each.target]) for each in due if each.target in targets]
    async with bounded_transaction(connection):
        if found:
            await _mark(connection, found)
            await touch_targets(connection, [each.target for each, _ in found])
        await _erase_late(connection, due, targets)
        await postpone(connection, [each for each in due if each.target not in targets], began_at)
    return Matched(len(due), len(found))


def _searched(due: Sequence[Pending]) -> Mapping[TargetKey, datetime.datetime]:
    """Returns up to when all the feedback on a target was looked for, by target."""
    unsearched = {each.target for each in due if each.searched_until is None}
    searched: dict[TargetKey, datetime.datetime] = {}
    for each in due:
        if each.searched_until is not None and each.target not in unsearched:
            searched[each.target] = min(each.searched_until, searched.get(each.target, each.searched_until))
    return searched


async def _mark(connection: Connection, found: Sequence[tuple[Pending, Target]]) -> None:
    await lock_feedback(connection)
    ids = [each.id for each, _ in found]
    values = [(_plain_model(target.model), target.function, target.variant, target.not_enrolled) for _, target in found]
    await connection.execute(_MARK, ids, *([*column] for column in zip(*values, strict=True)), min(ids), max(ids))
    await stop_waiting(connection, ids)
    await wake(connection, {(each.target.team_id, each.target.id) for each, _ in found})  # others that wait for the same


async def _erase_late(connection: Connection, due: Sequence[Pending], targets: Mapping[TargetKey, Target]) -> None:
    """Erases feedback on something that was erased.

    All of it is erased if it was received before that, else only its words, which may quote what was erased.
    """
    if await read_key(connection) is None:
        return  # there was no erasure yet
    erased = await find_targets(connection, [each.target for each in due if each.target in targets], only_erased=True)
    erased_at = {key: target.erased_at for key, target in erased.items() if target.erased_at is not None}
    lost = await find_erased_episodes(connection, [each.target for each in due])
    erased_at |= lost
    reached = [each for each in due if each.target in erased_at]
    late = [each.id for each in reached if each.received_at <= erased_at[each.target]]
    later = [each.id for each in reached if each.received_at > erased_at[each.target]]
    await erase_by_ids(connection, late, keep_tags=(), episodes=[target.id for target in lost])
    await erase_by_ids(connection, later, keep_tags=(), only_words=True)


def _plain_model(model: str) -> str:
    for prefix in MODEL_PREFIXES:
        model = model.removeprefix(prefix)
    return model
