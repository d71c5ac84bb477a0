"""The list of replays counts the items of the replays that it shows: those of all others may be millions."""

from sqlalchemy import text

from app.api.admin.replays import ReplayQuery
from app.store.database import transaction
from app.store.replays import page_replays

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
