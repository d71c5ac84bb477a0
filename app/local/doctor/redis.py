"""Whether Redis or Valkey is there, may be written, and keeps what limits count."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from redis import asyncio as redis
from redis.exceptions import RedisError, ResponseError

from app.local.doctor.database import shown
from app.local.doctor.finding import Finding, Findings

_PATIENCE_S = 5.0
_OLDEST = (6, 2)
_SKEW_S = 2.0
_SLOW_S = 0.02
_FULL = 0.9


class RedisFacts(Struct, frozen=True):
    """`fault`: why it could not be asked; nothing else is known then. `skew_s`: how far its clock is ahead of ours."""

    address: str
    fault: str | None = None
    name: str = "Redis"
    version: str = ""
    answered_s: float = 0.0
    skew_s: float = 0.0
    is_replica: bool = False
    is_cluster: bool = False
    appends: bool = False
    last_write_failed: bool = False
    eviction: str = "noeviction"
    used_bytes: int = 0
    most_bytes: int = 0
    runs_scripts: bool = True


async def look(url: str) -> RedisFacts:
    address = shown(url)
    if not url:
        return RedisFacts("", fault="no address is known")
    try:
        client = redis.from_url(url, socket_connect_timeout=_PATIENCE_S, socket_timeout=_PATIENCE_S)  # pyright: ignore[reportUnknownMemberType]
    except ValueError as fault:
        return RedisFacts(address, fault=str(fault))
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await client.ping()  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
            asked_at = time.time()
            seconds, micros = await client.time()  # pyright: ignore[reportUnknownMemberType]
            answered_s = time.time() - asked_at
            runs_scripts = await _runs_scripts(client)
            about: Mapping[str, Any] = await client.info("all")  # pyright: ignore[reportUnknownMemberType]
    except (RedisError, OSError, TimeoutError) as fault:
        return RedisFacts(address, fault=str(fault) or f"it did not answer within {_PATIENCE_S:.0f} s")
    finally:
        await client.aclose()
    return RedisFacts(
        address,
        name="Valkey" if "valkey_version" in about else "Redis",
        version=str(about.get("valkey_version") or about.get("redis_version", "")),
        answered_s=answered_s,
        skew_s=seconds + micros / 1e6 - (asked_at + answered_s / 2),
        is_replica=about.get("role") in ("slave", "replica"),
        is_cluster=bool(about.get("cluster_enabled")),
        appends=bool(about.get("aof_enabled")),
        last_write_failed="err" in (about.get("aof_last_write_status"), about.get("rdb_last_bgsave_status")),
        eviction=str(about.get("maxmemory_policy", "noeviction")),
        used_bytes=int(about.get("used_memory", 0)),
        most_bytes=int(about.get("maxmemory", 0)),
        runs_scripts=runs_scripts,
    )


async def _runs_scripts(client: redis.Redis) -> bool:
    """A user with few rights may have none to these, in which limits are taken."""
    try:
        await client.eval("return 1", 0)  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
    except ResponseError:
        return False
    return True


def judge(facts: RedisFacts) -> list[Finding]:
    found = Findings("redis")
    if facts.fault is not None:
        if facts.address:
            found.wrong(
                f"Redis on {facts.address} could not be asked: {facts.fault}. Each limit is kept by each process alone, or refuses.",
                "Is it running, and is REDIS_URL right? Where `narthex up` runs it, NARTHEX_HOME/logs/valkey.log may say what ails it.",
            )
        else:
            found.wrong("No Redis is known: REDIS_URL is not set, and no `narthex up` runs in this home.", "Set REDIS_URL: limits need it.")
        return found.all("")
    numbers = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    if facts.name == "Redis" and numbers < _OLDEST:
        found.warn(f"Redis {facts.version} is older than any that Narthex is tried with.", "Use Redis 6.2 or newer, or Valkey.")
    if facts.is_replica:
        found.wrong(f"{facts.name} on {facts.address} is a replica, which takes no changes.", "Let REDIS_URL name the primary.")
    if facts.is_cluster:
        found.wrong(f"{facts.name} on {facts.address} is a cluster, which is not supported.", "Use one primary, with replicas if you like.")
    if not facts.runs_scripts:
        found.wrong(f"{facts.name} lets us run no scripts, in which limits are taken.", "Give the user of REDIS_URL +@scripting.")
    if not facts.appends:
        found.warn(
            f"{facts.name} keeps no append-only file: if it restarts, limits of seconds to hours begin as spent.",
            "Set appendonly yes (appendfsync everysec is enough).",
        )
    if facts.last_write_failed:
        found.wrong(f"{facts.name} could not write its file to disk the last time.", "Make space on its disk; its log tells more.")
    _judge_memory(facts, found)
    if abs(facts.skew_s) > _SKEW_S:
        found.warn(
            f"{facts.name}'s clock is {abs(facts.skew_s):.1f} s off this machine's: limits of days and months begin by its clock.",
            "Let both machines keep their clocks (chrony, systemd-timesyncd).",
        )
    if facts.answered_s > _SLOW_S:
        found.warn(
            f"{facts.name} took {facts.answered_s * 1000:.0f} ms for the simplest question, and every request with limits waits for it.",
            "Run it nearer to the gateway.",
        )
    return found.all(
        f"{facts.name} {facts.version} answers in {facts.answered_s * 1000:.1f} ms, forgets nothing at a restart and evicts nothing."
    )


def _judge_memory(facts: RedisFacts, found: Findings) -> None:
    if facts.eviction != "noeviction" and facts.most_bytes:
        found.wrong(
            f"{facts.name} throws keys away when it is full (maxmemory-policy {facts.eviction}): limits would forget what was used.",
            "Set maxmemory-policy noeviction.",
        )
    elif facts.eviction != "noeviction":
        found.warn(
            f"{facts.name} would throw keys away if it had a bound (maxmemory-policy {facts.eviction}).", "Set maxmemory-policy noeviction."
        )
    if facts.most_bytes and facts.used_bytes > _FULL * facts.most_bytes:
        found.warn(
            f"{facts.name} uses {facts.used_bytes / 1e6:.0f} of its {facts.most_bytes / 1e6:.0f} MB: full, it would take no reservation.",
            "Raise maxmemory.",
        )
