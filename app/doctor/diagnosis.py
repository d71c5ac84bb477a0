"""The diagnosis: every part is checked at the same time, within seconds, and judged."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from app.doctor import certificate, database, engines, gateway, limits, machine, processes, records, redis, sign_in
from app.doctor.findings import Finding, worst_first
from app.domain.snapshot import Snapshot
from app.settings import Settings
from app.store.configuration import saved_snapshot
from app.supervisor.machine import server_addresses
from app.supervisor.machine.errors import OperatorError

_TIMEOUT_S = 20.0  # of each check; they have shorter timeouts of their own, so this one is for unforeseen cases


async def diagnose_installation(environ: Mapping[str, str], on_done: Callable[[str], None]) -> list[Finding]:
    """Findings, the worst first. Calls `on_done` with each area whose check is done. Raises nothing: installations may be broken."""
    settings, settings_findings = machine.read_settings(environ)
    settings = with_servers(settings)
    process_facts = processes.collect_facts(settings.home)
    gateway_pid = processes.gateway_pid(process_facts)

    async def diagnose_machine() -> list[Finding]:
        facts = await asyncio.to_thread(machine.collect_facts, settings, gateway_pid)
        return [*machine.diagnose(facts, settings), *await asyncio.to_thread(certificate.diagnose, settings)]

    async def diagnose_records() -> list[Finding]:
        return records.diagnose(await asyncio.to_thread(records.collect_facts, settings), settings)

    async def diagnose_gateway() -> list[Finding]:
        return gateway.diagnose(await gateway.collect_facts(settings))

    async def diagnose_redis() -> list[Finding]:
        return redis.diagnose(await redis.collect_facts(settings.redis_url))

    database_task = asyncio.create_task(database.collect_facts(settings.database_url, settings.database_direct_url))

    async def diagnose_database() -> list[Finding]:
        return database.diagnose(await database_task)

    async def diagnose_sign_in() -> list[Finding]:
        return await sign_in.diagnose(settings)

    async def diagnose_engines() -> list[Finding]:
        facts = await database_task
        snapshot = facts.state.snapshot if facts.state else _load_saved_snapshot(settings)
        if snapshot is None:
            return []
        engine_facts = await engines.collect_facts(snapshot, engines.process_environment(gateway_pid), settings)
        known = facts.state.known_names if facts.state else None
        return [*engines.diagnose(engine_facts, snapshot), *limits.diagnose(snapshot, known, settings)]

    checks: dict[str, Callable[[], Awaitable[list[Finding]]]] = {
        "machine": diagnose_machine,
        "gateway": diagnose_gateway,
        "postgres": diagnose_database,
        "redis": diagnose_redis,
        "records": diagnose_records,
        "engines": diagnose_engines,
        "sign-in": diagnose_sign_in,
    }
    check_results = await asyncio.gather(*(_run_check(area, check, on_done) for area, check in checks.items()))
    findings = [
        *settings_findings,
        *processes.diagnose(process_facts, settings.home),
        *(finding for each in check_results for finding in each),
    ]
    return worst_first(findings)


async def _run_check(area: str, check: Callable[[], Awaitable[list[Finding]]], on_done: Callable[[str], None]) -> list[Finding]:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            return await check()
    except Exception as error:  # of any kind: one failed check must not hide the findings of the others
        return [Finding(area, "error", f"The check failed: {type(error).__name__}: {error}.", "Please report this as a bug of Narthex.")]
    finally:
        on_done(area)


def with_servers(settings: Settings) -> Settings:
    """These settings, with the addresses of the running servers where the environment has none; unchanged if there is neither."""
    try:
        resolved = server_addresses.resolve(replace(settings, database_url=""))
    except OperatorError:
        return settings
    if settings.database_url:
        return replace(settings, redis_url=resolved.redis_url)
    return resolved


def _load_saved_snapshot(settings: Settings) -> Snapshot | None:
    """The configuration that this home's gateway served last; it names the engines while Postgres is away."""
    return saved_snapshot.load_from_disk(settings.home / "directory" / "snapshot.json")
