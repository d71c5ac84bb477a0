"""The overview of `narthex status`: what runs, where, and how far behind it is. It does not look for problems, as the doctor does."""

import asyncio
from collections.abc import Mapping
from importlib.metadata import version

from msgspec import Struct

from app.doctor import database, gateway, processes, records, redis
from app.doctor.diagnosis import with_servers
from app.doctor.gateway import RefusingLimits
from app.doctor.processes import ProcessStatus
from app.settings import Settings
from app.store.schema.postgres_status import WorkerRow
from app.supervisor.machine.gateway_url import reachable_admin_url, reachable_url


class GatewayStatus(Struct, frozen=True):
    """The gateway's part of the overview."""

    url: str
    state: str  # ready, draining, silent (nothing answers), unknown (something else does) or other home (its gateway does)
    configuration: int | None
    postgres: str | None
    records_lost: int
    failing_tasks: Mapping[str, str]  # of the process that answered, with the kind of error
    tasks_failing: int  # how many in all processes
    revocation_lag_s: float  # since the process that is furthest behind last knew that its keys were current
    limits_refusing: RefusingLimits | None  # None: no limit refuses because Redis lost its memory


class ConfigurationStatus(Struct, frozen=True):
    """The configuration in force, as Postgres has it; `providers`, `models` and `limits` are counts."""

    version: int
    hash: str
    providers: int
    models: int
    limits: int


class ServerStatus(Struct, frozen=True):
    """PostgreSQL or Redis in the overview."""

    name: str  # PostgreSQL, Redis or Valkey
    address: str  # without a password, empty if none is known
    reachable: bool
    version: str | None
    error: str | None  # why it is not reachable


class SpoolStatus(Struct, frozen=True):
    """The spool's part of the overview."""

    size_bytes: int
    oldest_s: float  # age of the oldest record that is not in Postgres yet; 0: all are stored
    quarantined: int


class WriterSummary(Struct, frozen=True):
    """The writer's part of the overview."""

    running: bool  # whether it has reported within seconds
    connected: bool
    rows: int  # stored since its start
    last_error: str | None


class Status(Struct, frozen=True):
    """The whole overview."""

    ready: bool  # whether the gateway takes requests
    healthy: bool  # whether it takes requests, PostgreSQL, Redis and the writer work, and no limit refuses as Redis lost its memory
    version: str
    home: str
    address: str
    admin_address: str  # that is `address`, unless the admin API has one of its own
    processes: tuple[ProcessStatus, ...]
    gateway: GatewayStatus
    configuration: ConfigurationStatus | None  # None: Postgres is not reachable
    workers: tuple[WorkerRow, ...] | None  # None: Postgres is not reachable
    postgres: ServerStatus
    redis: ServerStatus
    spool: SpoolStatus
    writer: WriterSummary | None  # None: it never ran here


async def collect_status(settings: Settings) -> Status:
    """Returns within seconds, whatever is unreachable."""
    settings = with_servers(settings)
    gateway_facts, database_facts, redis_facts = await asyncio.gather(
        gateway.collect_facts(settings),
        database.collect_facts(settings.database_url, settings.database_direct_url),
        redis.collect_facts(settings.redis_url),
    )
    record_facts = records.collect_facts(settings)
    database_state = database_facts.state
    snapshot = database_state.snapshot if database_state else None
    return Status(
        ready=_gateway_state(gateway_facts) == "ready",
        healthy=_gateway_state(gateway_facts) == "ready"
        and not gateway_facts.tasks_failing
        and not (gateway_facts.health and gateway_facts.health.limits_refusing)
        and database_state is not None
        and redis_facts.fault is None
        and record_facts.writer_runs,
        version=version("narthex"),
        home=str(settings.home.absolute()),
        address=reachable_url(settings),
        admin_address=reachable_admin_url(settings),
        processes=processes.collect_facts(settings.home),
        gateway=GatewayStatus(
            gateway_facts.url,
            _gateway_state(gateway_facts),
            gateway_facts.health.configuration if gateway_facts.health else None,
            gateway_facts.health.postgres if gateway_facts.health else None,
            gateway_facts.records_lost,
            gateway_facts.health.failing_tasks if gateway_facts.health else {},
            gateway_facts.tasks_failing,
            gateway_facts.revocation_lag_s,
            gateway_facts.health.limits_refusing if gateway_facts.health else None,
        ),
        configuration=snapshot
        and ConfigurationStatus(snapshot.version, snapshot.hash, len(snapshot.providers), len(snapshot.models), len(snapshot.limits)),
        workers=database_state.workers if database_state else None,
        postgres=ServerStatus(
            "PostgreSQL",
            database_facts.address,
            database_state is not None,
            database_state.version if database_state else None,
            database_facts.fault,
        ),
        redis=ServerStatus(
            redis_facts.name, redis_facts.address, redis_facts.fault is None, redis_facts.version or None, redis_facts.fault
        ),
        spool=SpoolStatus(record_facts.spool_bytes, records.oldest_record_s(record_facts), record_facts.quarantined),
        writer=record_facts.writer
        and WriterSummary(
            record_facts.writer_runs, record_facts.writer.connected, record_facts.writer.rows, record_facts.writer.last_error
        ),
    )


def _gateway_state(facts: gateway.GatewayFacts) -> str:
    if facts.fault is not None:
        return "silent"
    if facts.health is None:
        return "unknown"
    return facts.health.status if facts.is_own else "other home"
