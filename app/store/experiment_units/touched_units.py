"""Units of experiments about which something was stored, for whoever counts them: appended in the transaction that stores it."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from app.domain import uuid7
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.partitions import DAY_MS, Connection
from app.store.records.feedback_targets import TargetKey

# Why an inference excludes its unit. The other reasons of NotEnrolled are of a whole unit, or of the time before it takes part.
EXCLUDING = ("pinned", "ineligible", "late", "future")
# As of the index inferences_unit_idx, to the letter.
COUNTS_FOR_UNIT = "experiment_unit IS NOT NULL AND (not_enrolled IS NULL OR not_enrolled IN ('pinned', 'ineligible', 'late', 'future'))"

_COLUMNS = ("experiment", "version", "unit", "id", "enrolled", "arm", "episode_kind")
_NAMES = ("experiment", "not_enrolled", "experiment_unit", "experiment_version", "id", "variant", "episode_kind")
_EXPERIMENT, _REASON, _UNIT, _VERSION, _ID, _ARM, _KIND = (INFERENCE_COLUMNS.index(name) for name in _NAMES)
_INFERENCES_OF_EPISODE = 1_000  # the oldest, nearly always: they are stored in this order

# Without a started experiment nothing else of these is carried out. Of several inferences of a unit in an episode the first is enough: if
# any is in the unit's window, so is that, as no inference that takes part is older than the unit's first.
_TOUCH_INFERENCES = f"""
    INSERT INTO touched_units ({", ".join(_COLUMNS)})
    SELECT experiment, experiment_version, experiment_unit, id, false, coalesce(variant, ''), coalesce(episode_kind, '') FROM inferences
    WHERE EXISTS (SELECT FROM experiments WHERE started_at IS NOT NULL) AND {COUNTS_FOR_UNIT} AND not_enrolled IS NULL
        AND id = any($1::uuid[]) AND id >= $2::uuid AND id <= $3::uuid
"""  # noqa: S608
_TOUCH_EPISODES = f"""
    INSERT INTO touched_units ({", ".join(_COLUMNS)})
    SELECT DISTINCT ON (found.experiment, found.experiment_unit)
        found.experiment, found.experiment_version, found.experiment_unit, found.id, false, coalesce(found.variant, ''),
        coalesce(found.episode_kind, '')
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS episode (id, team_id, since)
    CROSS JOIN LATERAL (
        SELECT * FROM inferences
        WHERE EXISTS (SELECT FROM experiments WHERE started_at IS NOT NULL) AND {COUNTS_FOR_UNIT} AND not_enrolled IS NULL
            AND inferences.episode_id = episode.id AND inferences.team_id = episode.team_id AND inferences.id >= episode.since
        LIMIT {_INFERENCES_OF_EPISODE}
    ) AS found
    ORDER BY found.experiment, found.experiment_unit, found.id
"""  # noqa: S608
_TAKE = f"""
    DELETE FROM touched_units WHERE ctid = ANY(ARRAY(SELECT ctid FROM touched_units LIMIT $1))
    RETURNING {", ".join(_COLUMNS[:3])}, id::text, {", ".join(_COLUMNS[4:])}
"""  # noqa: S608


class Touch(NamedTuple):
    """Something about a unit."""

    experiment: str  # its name
    version: int
    unit: str
    id: str  # the inference it is about
    enrolled: bool  # whether that may be the unit's first
    arm: str
    episode_kind: str


def touches_of(inferences: Iterable[Sequence[Any]]) -> list[Touch]:
    """Returns, for each unit, the first inference that takes part, and all inferences that may exclude it.

    `inferences` are rows of INFERENCE_COLUMNS.
    """
    first: dict[tuple[str, str], Touch] = {}
    excluding: list[Touch] = []
    for row in inferences:
        experiment = row[_EXPERIMENT]
        if experiment is None or row[_UNIT] is None:  # as of nearly all, where no experiment runs
            continue
        reason = row[_REASON]
        if reason is not None and reason not in EXCLUDING:
            continue
        touch = Touch(experiment, row[_VERSION], row[_UNIT], row[_ID], reason is None, row[_ARM] or "", row[_KIND] or "")
        if reason is not None:
            excluding.append(touch)
        elif (known := first.get((experiment, touch.unit))) is None or touch.id < known.id:
            first[experiment, touch.unit] = touch
    return [*first.values(), *excluding]


async def touch_units(connection: Connection, touches: Sequence[Touch]) -> None:
    if touches:
        await connection.copy_records_to_table("touched_units", records=touches, columns=_COLUMNS)


async def touch_targets(connection: Connection, targets: Iterable[TargetKey]) -> None:
    """The units of these inferences and episodes: what counts of the feedback on them has changed."""
    inferences: set[str] = set()
    episodes: set[tuple[str, str, str]] = set()
    for target in targets:
        if target.level == "inference":
            inferences.add(target.id)
        else:
            since_ms = uuid7.created_ms(target.id) - DAY_MS if uuid7.is_uuid7(target.id) else 0
            episodes.add((target.id, target.team_id, uuid7.lowest_at(since_ms)))
    await touch_inferences(connection, inferences)
    if episodes:
        await connection.execute(_TOUCH_EPISODES, *([*column] for column in zip(*sorted(episodes), strict=True)))


async def touch_inferences(connection: Connection, ids: Iterable[str]) -> None:
    """The units of these inferences, which have changed."""
    wanted = sorted(ids)
    if wanted:
        await connection.execute(_TOUCH_INFERENCES, wanted, wanted[0], wanted[-1])


async def take_touches(connection: Connection, limit: int) -> list[Touch]:
    return [Touch(*row) for row in await connection.fetch(_TAKE, limit)]
