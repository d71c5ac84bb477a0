"""What runs, where, and how far behind it is: for a look, where the doctor is for trouble."""

import asyncio
from importlib.metadata import version

from msgspec import Struct

from app.local.doctor import database, gateway, processes, records, redis
from app.local.doctor.examine import with_servers
from app.local.doctor.processes import Process
from app.local.listeners import reachable_url
from app.settings import Settings
from app.store.condition import WorkerRow


class GatewayStatus(Struct, frozen=True):
    """`state`: ready, draining, silent (nothing answers) or unknown (something else does)."""

    url: str
    state: str
    configuration: int | None
    postgres: str | None
    records_lost: int


class ConfigurationStatus(Struct, frozen=True):
    """What Postgres says is in force."""

    version: int
    hash: str
    providers: int
    models: int
    limits: int


class ServerStatus(Struct, frozen=True):
    """`name`: PostgreSQL, Redis or Valkey. `address` without a password, empty if none is known."""

    name: str
    address: str
    reachable: bool
    version: str | None
    trouble: str | None


class SpoolStatus(Struct, frozen=True):
    """`oldest_s`: age of the oldest record that is not in Postgres; 0: all is stored."""

    size_bytes: int
    oldest_s: float
    quarantined: int


class WriterState(Struct, frozen=True):
    """`running`: heard of within seconds. `rows`: stored since its start."""

    running: bool
    connected: bool
    rows: int
    last_error: str | None


class Status(Struct, frozen=True):
    """`ready`: the gateway takes requests. `configuration` and `workers` None: Postgres does not tell."""

    ready: bool
    version: str
    home: str
    address: str
    processes: tuple[Process, ...]
    gateway: GatewayStatus
    configuration: ConfigurationStatus | None
    workers: tuple[WorkerRow, ...] | None
    postgres: ServerStatus
    redis: ServerStatus
    spool: SpoolStatus
    writer: WriterState | None


async def look(settings: Settings) -> Status:
    """Within seconds, whatever is away."""
    settings = with_servers(settings)
    asked, stored, counted = await asyncio.gather(
        gateway.look(settings), database.look(settings.database_url), redis.look(settings.redis_url)
    )
    told = records.look(settings)
    condition = stored.condition
    configured = condition.directory if condition else None
    return Status(
        ready=_state(asked) == "ready",
        version=version("narthex"),
        home=str(settings.home.absolute()),
        address=reachable_url(settings),
        processes=processes.look(settings.home),
        gateway=GatewayStatus(
            asked.url,
            _state(asked),
            asked.health.configuration if asked.health else None,
            asked.health.postgres if asked.health else None,
            asked.records_lost,
        ),
        configuration=configured
        and ConfigurationStatus(
            configured.version, configured.hash, len(configured.providers), len(configured.models), len(configured.limits)
        ),
        workers=condition.workers if condition else None,
        postgres=ServerStatus("PostgreSQL", stored.address, condition is not None, condition.version if condition else None, stored.fault),
        redis=ServerStatus(counted.name, counted.address, counted.fault is None, counted.version or None, counted.fault),
        spool=SpoolStatus(told.spool_bytes, records.oldest_s(told), told.quarantined),
        writer=told.writer and WriterState(told.writer_runs, told.writer.connected, told.writer.rows, told.writer.last_error),
    )


def _state(facts: gateway.GatewayFacts) -> str:
    if facts.fault is not None:
        return "silent"
    return "unknown" if facts.health is None else facts.health.status
