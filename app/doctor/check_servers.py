"""Whether a gateway could start on these servers, looked at before it is started: its log would answer with a traceback."""

import asyncio
from collections.abc import Callable

from app.doctor import redis
from app.domain.errors import UnsupportedServer
from app.settings import Settings
from app.store.configuration import saved_snapshot
from app.store.redis.redis_url import parse_redis_url
from app.store.schema.postgres_status import revisions
from app.store.schema.server_versions import REDIS_NEEDED, is_old_redis
from app.supervisor.database_query import query_database
from app.supervisor.machine.errors import OperatorError


def check_servers(settings: Settings, report: Callable[[str], None]) -> None:
    """Raises OperatorError if the gateway could not start; reports what it will lack.

    A gateway that has served before starts without PostgreSQL, with the configuration of its last run; without Redis it always starts.
    """
    try:
        _check_database(settings)
    except OperatorError as fault:
        has_served = saved_snapshot.load_from_disk(settings.home / "directory" / "snapshot.json") is not None
        if isinstance(fault.__cause__, UnsupportedServer) or not has_served:
            raise
        report(f"{fault}\nUntil then the configuration of the last run is served.")
    if not settings.redis_url:
        report(
            "There is no Redis: each process enforces its share of limits, and requests with an Idempotency-Key are refused.\n"
            "Set REDIS_URL to a Redis or Valkey server (`narthex up` starts one)."
        )
    else:
        check_redis(settings, report)


def check_redis(settings: Settings, report: Callable[[str], None]) -> None:
    """Raises OperatorError if REDIS_URL is invalid, or its Redis too old; reports if it is not reachable."""
    try:
        parse_redis_url(settings.redis_url)
    except ValueError as fault:
        raise OperatorError(f"REDIS_URL is no address of a Redis: {fault}") from fault
    facts = asyncio.run(redis.collect_facts(settings.redis_url))
    if is_old_redis(facts.name, facts.version):
        raise OperatorError(f"{facts.name} {facts.version} is too old: Narthex needs {REDIS_NEEDED}.")
    if facts.fault is not None:
        report(
            f"Redis is not reachable ({facts.fault}): each process enforces its share of limits, and an Idempotency-Key is refused.\n"
            "Start it, or set REDIS_URL to where it runs; `narthex doctor` tries it."
        )


def _check_database(settings: Settings) -> None:
    current, newest = query_database(settings.database_url, revisions)
    if current is None:
        raise OperatorError("The database has no tables of Narthex yet.\n`narthex migrate` creates them.")
    if current < newest:
        raise OperatorError(
            f"The database's tables are of an older version ({current}; {newest} is needed).\n`narthex migrate` upgrades them."
        )
