"""The list of replays counts the items of the replays that it shows: those of all others may be millions."""

import msgspec
import pytest
from sqlalchemy import text

from app.api.admin.experiments.replays import ReplayQuery
from app.domain import uuid7
from app.gateway.replay.replay_runs import take_replay
from app.store.postgres.audit_log import Author
from app.store.postgres.database import transaction
from app.store.records.inference_filter import InferenceFilter
from app.store.replays.replays import NewReplay, ReplayDefinition, page_replays, start_replay
from app.store.replays.team_room import MAX_RUNNING_OF_TEAM, TooManyReplays

_REPLAYS = 30
_DEFINITION = """{
    "filter": {}, "model": "m", "variant": null, "key": "nx-0", "sample": 1.0, "seed": "s", "max_items": 5, "max_usd": null,
    "concurrency": 1, "per_minute": null, "judge": null
}"""
_INSERT_REPLAYS = text("""
    INSERT INTO replays (id, definition, team_id, key_id, created_at, created_by, refused)
    SELECT gen_random_uuid(), CAST(:definition AS jsonb), gen_random_uuid(), gen_random_uuid(), now() - n * interval '1 minute', 'n', '{}'
    FROM generate_series(1, :replays) AS n
""")
_INSERT_ITEMS = text("""
    INSERT INTO replay_items (replay_id, number, original_id, episode, status)
    SELECT replays.id, number, gen_random_uuid(), 1, CASE number WHEN 1 THEN 'done' ELSE 'pending' END
    FROM replays, generate_series(1, 3) AS number
""")
_SCANS = text("SELECT seq_scan + coalesce(idx_scan, 0) FROM pg_stat_xact_user_tables WHERE relname = 'replay_items'")


async def test_only_items_of_the_replays_on_the_page_are_counted(database: str) -> None:
    async with transaction(database) as connection:
        await connection.execute(_INSERT_REPLAYS, {"definition": _DEFINITION, "replays": _REPLAYS})
        await connection.execute(_INSERT_ITEMS)
    found: list[str] = []
    after: str | None = None
    while True:
        async with transaction(database) as connection:
            page = await page_replays(connection, ReplayQuery(limit=7, after=after), only_teams=None, status=None)
            scans = await connection.scalar(_SCANS)
        assert 0 < scans <= 8, scans
        assert all(each.items == {"pending": 2, "running": 0, "done": 1, "refused": 0} for each in page.data), page
        found += [each.created_at for each in page.data]
        after = page.next
        if after is None:
            break
    assert len(set(found)) == _REPLAYS and found == sorted(found, reverse=True)


async def test_teams_take_turns_and_none_starts_too_many(database: str) -> None:
    busy, other, key = uuid7.mint(), uuid7.mint(), uuid7.mint()
    insert = text("""
        INSERT INTO replays (id, definition, team_id, key_id, created_at, created_by, refused)
        VALUES (:id, CAST(:definition AS jsonb), :team, :key, now(), 'n', '{}')
    """)
    teams = [*[busy] * MAX_RUNNING_OF_TEAM, other]
    ids = [uuid7.mint() for _ in teams]
    async with transaction(database) as connection:
        for id, team in zip(ids, teams, strict=True):
            await connection.execute(insert, {"id": id, "definition": _DEFINITION, "team": team, "key": key})
    taken: list[str] = []
    for _ in range(3):
        async with transaction(database) as connection:
            held = await take_replay(connection, "gateway-0")
            assert held is not None
            taken.append(held.id)
    assert taken == [ids[0], ids[-1], ids[1]]
    definition = msgspec.json.decode(_DEFINITION, type=ReplayDefinition)
    new = NewReplay(definition, InferenceFilter(), busy, key, "busy")
    with pytest.raises(TooManyReplays, match="'busy' has 20 replays that have not ended"):
        async with transaction(database) as connection:
            await start_replay(connection, Author("system", None, "a test", "system"), new)
