"""The examination: everything is looked at at once, within seconds, and judged."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from app.domain import Directory
from app.local import servers
from app.local.doctor import database, engines, gateway, limits, machine, processes, records, redis
from app.local.doctor.finding import Finding, ordered
from app.local.trouble import Trouble
from app.settings import Settings
from app.store import directory

_PATIENCE_S = 20.0  # of each part; the parts have shorter ones of their own, so this is for what they do not foresee


async def examine(environ: Mapping[str, str], on_done: Callable[[str], None]) -> list[Finding]:
    """Findings, the worst first. `on_done` is told each area when it is through with it. Raises nothing: it is for broken installations."""
    settings, about_settings = machine.readable(environ)
    settings = with_servers(settings)
    found = processes.look(settings.home)
    pid = processes.gateway_pid(found)

    async def of_machine() -> list[Finding]:
        return machine.judge(await asyncio.to_thread(machine.look, settings, pid), settings)

    async def of_records() -> list[Finding]:
        return records.judge(await asyncio.to_thread(records.look, settings), settings)

    async def of_gateway() -> list[Finding]:
        return gateway.judge(await gateway.look(settings))

    async def of_redis() -> list[Finding]:
        return redis.judge(await redis.look(settings.redis_url))

    stored = asyncio.create_task(database.look(settings.database_url))

    async def of_database() -> list[Finding]:
        return database.judge(await stored)

    async def of_engines() -> list[Finding]:
        facts = await stored
        configured = facts.condition.directory if facts.condition else _kept(settings)
        if configured is None:
            return []
        served = await engines.look(configured, engines.environment_of(pid), settings)
        known = facts.condition.known if facts.condition else None
        return [*engines.judge(served, configured), *limits.judge(configured, known, settings)]

    parts: dict[str, Callable[[], Awaitable[list[Finding]]]] = {
        "machine": of_machine,
        "gateway": of_gateway,
        "postgres": of_database,
        "redis": of_redis,
        "records": of_records,
        "engines": of_engines,
    }
    looked = await asyncio.gather(*(_part(area, part, on_done) for area, part in parts.items()))
    judged = [*about_settings, *processes.judge(found, settings.home), *(finding for each in looked for finding in each)]
    return ordered(judged)


async def _part(area: str, look: Callable[[], Awaitable[list[Finding]]], on_done: Callable[[str], None]) -> list[Finding]:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await look()
    except Exception as fault:  # whatever it is: a doctor who falls silent over one thing tells nothing of the others
        return [
            Finding(
                area, "wrong", f"This could not be looked at: {type(fault).__name__}: {fault}.", "Please report it: it is a fault of ours."
            )
        ]
    finally:
        on_done(area)


def with_servers(settings: Settings) -> Settings:
    """With the addresses of the servers that run here, where the environment names none; as they are if there is neither."""
    try:
        here = servers.found(replace(settings, database_url=""))
    except Trouble:
        return settings
    return replace(settings, database_url=settings.database_url or here.database_url, redis_url=here.redis_url)


def _kept(settings: Settings) -> Directory | None:
    """What the gateway of this home served last: good enough to ask the engines by."""
    return directory.load(settings.home / "directory" / "snapshot.json")
