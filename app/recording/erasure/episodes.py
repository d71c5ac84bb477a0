"""Episodes that lost their id in an erasure, by its keyed hash: what somebody says of one later would find no record of it any more.

Other episodes keep their id, so their erased inferences are found.
"""

import datetime
from collections.abc import Collection, Iterable, Mapping

from app.recording.erasure.hashes import Selector, hash_of, read_key
from app.store.postgres.partitions import Connection
from app.store.records.feedback_targets import TargetKey

_NOTE = """
    INSERT INTO erased_episodes (team_id, hash) SELECT * FROM unnest($1::uuid[], $2::bytea[])
    ON CONFLICT (team_id, hash) DO UPDATE SET erased_at = now()
"""
# An order for an episode also reaches one of which nothing is recorded yet.
_FIND = """
    SELECT wanted.place, found.erased_at FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS wanted (team_id, hash, place)
    CROSS JOIN LATERAL (
        SELECT erased_at FROM erased_episodes AS noted WHERE noted.team_id = wanted.team_id AND noted.hash = wanted.hash
        UNION ALL
        SELECT requested_at FROM erasures
        WHERE kind = 'episode' AND erasures.hash = wanted.hash AND (erasures.team_id IS NULL OR erasures.team_id = wanted.team_id)
        ORDER BY 1 DESC LIMIT 1
    ) AS found
"""


async def note_erased_episodes(connection: Connection, episodes: Collection[tuple[str, str]]) -> None:
    """Episodes that lose their id, by team and id; in the transaction in which they do."""
    if not episodes:
        return
    key = await read_key(connection)
    assert key is not None, "there is an erasure, so there is a key"
    noted = sorted((team_id, _hash(key, id)) for team_id, id in episodes)  # in one order: two transactions may note the same ones
    teams, hashes = ([*column] for column in zip(*noted, strict=True))
    await connection.execute(_NOTE, teams, hashes)


async def find_erased_episodes(connection: Connection, targets: Iterable[TargetKey]) -> Mapping[TargetKey, datetime.datetime]:
    """Returns those of the targets that are episodes which lost their id, and when that was."""
    wanted = sorted({target for target in targets if target.level == "episode"})
    key = await read_key(connection) if wanted else None
    if key is None:
        return {}
    rows = await connection.fetch(_FIND, [each.team_id for each in wanted], [_hash(key, each.id) for each in wanted])
    return {wanted[row["place"] - 1]: row["erased_at"] for row in rows}


def _hash(key: bytes, id: str) -> bytes:
    return hash_of(key, Selector("episode", None, id))
