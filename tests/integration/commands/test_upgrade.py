"""This version reads what the version before 0009 wrote: its database, its spool and its snapshot on disk.

The folder written_before was made by that version. It holds 15 requests whose records its writer stored, 15 more that stayed in the
spool, and a configuration of providers, models, a limit, a price, a team and an encrypted credential.
"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.settings import Settings
from app.store.configuration.snapshot_cache import SnapshotCache
from app.store.keys.log import read_log
from app.store.postgres.database import connect, create_database_engine
from app.store.postgres.vault import Vault
from app.store.records.inference_queries import find_inference, read_packed_content, unpack_text
from app.store.schema.migrate import migrate
from app.store.teams.shown_keys import list_keys
from app.store.teams.teams import list_teams
from providers.canonical import errors
from tests.support.processes.writer_process import drain

BEFORE = Path(__file__).with_name("written_before")
REQUESTS: dict[str, list[tuple[str, str, int]]] = json.loads((BEFORE / "ids.json").read_text())
ERROR_NAMES = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.NarthexError)}
SECRET_KEY = (BEFORE / "secret-key").read_text().strip()


@pytest.fixture
async def upgraded(blank_database: str) -> str:
    """The database of the version before, migrated."""
    connection = await connect(blank_database)
    try:
        await connection.execute((BEFORE / "database.sql").read_text())
    finally:
        await connection.close()
    await migrate(blank_database)
    return blank_database


async def inference(database_url: str, id: str) -> dict[str, Any] | None:
    database = create_database_engine(database_url)
    try:
        async with database.connect() as connection:
            found = await find_inference(connection, id)
            packed = await read_packed_content(connection, id)
            content = packed and {"request": await unpack_text(packed.request), "response": await unpack_text(packed.response)}
            return found and {**found, "content": content}
    finally:
        await database.dispose()


def assert_is_read(recorded: dict[str, Any] | None, id: str, path: str, status: int) -> None:
    assert recorded is not None, f"{path} {id} is missing"
    assert recorded["status"] == status and recorded["route"], recorded
    # sandbox-dies breaks off after its 200, sandbox-flaky answers one request in three with an error.
    assert recorded["outcome"] == "answered" or recorded["error"] in ERROR_NAMES
    assert all(attempt["error"] in (None, *ERROR_NAMES) for attempt in recorded["attempts"] or ())
    content = recorded["content"]
    assert json.loads(content["request"])["model"].startswith("sandbox") and content["response"], content


async def test_migrated_database_of_the_version_before_is_read(upgraded: str) -> None:
    for id, path, status in REQUESTS["stored"]:
        assert_is_read(await inference(upgraded, id), id, path, status)


async def test_teams_and_keys_of_the_version_before_let_nothing_be_dropped(upgraded: str) -> None:
    found = (*await list_teams(upgraded), *await list_keys(upgraded))
    assert len(found) > 1 and {row.drop for row in found} == {()}
    logged = read_log(BEFORE / "keys-gateway-0.log")
    assert logged.callers and {caller.drop for caller in logged.callers.values()} == {()}


async def test_spool_of_the_version_before_is_written_once(upgraded: str, tmp_path: Path) -> None:
    shutil.copytree(BEFORE / "spool", tmp_path / "spool")
    status = await drain(Settings(home=tmp_path, database_url=upgraded, keep_inferences_days=0, keep_content_days=0))
    assert status.torn_records == 0 and status.quarantined == 0
    for id, path, http_status in (*REQUESTS["stored"], *REQUESTS["spooled"]):
        assert_is_read(await inference(upgraded, id), id, path, http_status)
    connection = await connect(upgraded)
    try:
        assert await connection.fetchval("SELECT count(*) FROM inferences") == len(REQUESTS["stored"]) + len(REQUESTS["spooled"])
    finally:
        await connection.close()


async def test_snapshot_on_disk_of_the_version_before_is_served_without_postgres(tmp_path: Path) -> None:
    folder = tmp_path / "directory"
    folder.mkdir()
    for name in ("snapshot.json", "keys-gateway-0.log"):
        shutil.copy(BEFORE / name, folder)
    settings = Settings(home=tmp_path, database_url="postgresql://nobody@127.0.0.1:9/nothing")
    database = create_database_engine(settings.database_url)
    cache = SnapshotCache(settings, database, "gateway-0")
    try:
        async with asyncio.timeout(60):
            await cache.start()
        assert {"assistant", "qwen3-4b", "sandbox"} <= cache.snapshot.models.keys()
        assert [limit.name for limit in cache.snapshot.limits] == ["per-key requests"] and len(cache.snapshot.prices) == 1
        assert Vault([SECRET_KEY]).decrypt("claude", cache.snapshot.credentials["claude"]) == "made-up-secret"
    finally:
        await cache.stop()
        await database.dispose()
