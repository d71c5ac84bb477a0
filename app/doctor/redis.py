"""Whether Redis or Valkey answers, takes writes, and keeps the counters of limits."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from redis import asyncio as redis
from redis.exceptions import RedisError, ResponseError

from app.doctor.findings import Finding, Findings
from app.doctor.mask_password import mask_password
from app.store.schema.server_versions import REDIS_NEEDED, is_old_redis

_TIMEOUT_S = 5.0
_MAX_SKEW_S = 2.0
_MAX_RESPONSE_S = 0.02
_MAX_MEMORY_SHARE = 0.9


class RedisFacts(Struct, frozen=True):
    """The facts about Redis that findings are made of."""

    address: str
    fault: str | None = None  # why it could not be queried; nothing else is known then
    name: str = "Redis"
    version: str = ""
    answered_s: float = 0.0
    skew_s: float = 0.0  # how far its clock is ahead of ours
    is_replica: bool = False
    is_cluster: bool = False
    appends: bool = False
    last_write_failed: bool = False
    eviction: str = "noeviction"
    used_bytes: int = 0
    max_bytes: int = 0
    runs_scripts: bool = True


async def collect_facts(url: str) -> RedisFacts:
    address = mask_password(url)
    if not url:
        return RedisFacts("", fault="no address is known")
    try:
        client = redis.from_url(url, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S)  # pyright: ignore[reportUnknownMemberType]
    except ValueError as fault:
        return RedisFacts(address, fault=str(fault))
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            await client.ping()  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
            sent_at = time.time()
            seconds, micros = await client.time()  # pyright: ignore[reportUnknownMemberType]
            answered_s = time.time() - sent_at
            runs_scripts = await _runs_scripts(client)
            server_info: Mapping[str, Any] = await client.info("all")  # pyright: ignore[reportUnknownMemberType]
    except (RedisError, OSError, TimeoutError) as fault:
        return RedisFacts(address, fault=str(fault) or f"it did not answer within {_TIMEOUT_S:.0f} s")
    finally:
        await client.aclose()
    return RedisFacts(
        address,
        name="Valkey" if "valkey_version" in server_info else "Redis",
        version=str(server_info.get("valkey_version") or server_info.get("redis_version", "")),
        answered_s=answered_s,
        skew_s=seconds + micros / 1e6 - (sent_at + answered_s / 2),
        is_replica=server_info.get("role") in ("slave", "replica"),
        is_cluster=bool(server_info.get("cluster_enabled")),
        appends=bool(server_info.get("aof_enabled")),
        last_write_failed="err" in (server_info.get("aof_last_write_status"), server_info.get("rdb_last_bgsave_status")),
        eviction=str(server_info.get("maxmemory_policy", "noeviction")),
        used_bytes=int(server_info.get("used_memory", 0)),
        max_bytes=int(server_info.get("maxmemory", 0)),
        runs_scripts=runs_scripts,
    )


async def _runs_scripts(client: redis.Redis) -> bool:
    """Whether this user may run scripts; a user with few rights may not."""
    try:
        await client.eval("return 1", 0)  # pyright: ignore[reportUnknownMemberType, reportGeneralTypeIssues]
    except ResponseError:
        return False
    return True


def diagnose(facts: RedisFacts) -> list[Finding]:
    findings = Findings("redis")
    if facts.fault is not None:
        if facts.address:
            findings.add_error(
                f"Redis on {facts.address} is not reachable: {facts.fault}. Each process enforces limits by itself, or refuses requests.",
                "Is it running, and is REDIS_URL right? Where `narthex up` runs it, NARTHEX_HOME/logs/valkey.log may say why.",
            )
        else:
            findings.add_error(
                "No Redis is known: REDIS_URL is not set, and no `narthex up` runs in this home.", "Set REDIS_URL: limits need it."
            )
        return findings.finish("")
    if is_old_redis(facts.name, facts.version):
        findings.add_error(f"{facts.name} {facts.version} is too old.", f"Use {REDIS_NEEDED}.")
    if facts.is_replica:
        findings.add_error(f"{facts.name} on {facts.address} is a replica, which takes no changes.", "Set REDIS_URL to the primary.")
    if facts.is_cluster:
        findings.add_error(
            f"{facts.name} on {facts.address} is a cluster, which is not supported.", "Use one primary, with replicas if you like."
        )
    if not facts.runs_scripts:
        findings.add_error(
            f"{facts.name} allows this user no scripts, which limits need.", "Give the user of REDIS_URL the right +@scripting."
        )
    if not facts.appends:
        findings.add_warning(
            f"{facts.name} keeps no append-only file: after a restart, limits refuse until what was used is read from the records.",
            "Set appendonly yes (appendfsync everysec is enough).",
        )
    if facts.last_write_failed:
        findings.add_error(f"{facts.name} could not write its file to disk the last time.", "Make space on its disk; its log says more.")
    _diagnose_memory(facts, findings)
    if abs(facts.skew_s) > _MAX_SKEW_S:
        findings.add_warning(
            f"{facts.name}'s clock is {abs(facts.skew_s):.1f} s off this machine's: limits of days and months start by its clock.",
            "Synchronise both clocks (chrony, systemd-timesyncd).",
        )
    if facts.answered_s > _MAX_RESPONSE_S:
        findings.add_warning(
            f"{facts.name} took {facts.answered_s * 1000:.0f} ms for the simplest command, and every request with limits waits for it.",
            "Run it nearer to the gateway.",
        )
    return findings.finish(
        f"{facts.name} {facts.version} answers in {facts.answered_s * 1000:.1f} ms, keeps its data over a restart and evicts nothing."
    )


def _diagnose_memory(facts: RedisFacts, findings: Findings) -> None:
    if facts.eviction != "noeviction" and facts.max_bytes:
        findings.add_error(
            f"{facts.name} evicts keys when it is full (maxmemory-policy {facts.eviction}): limits would forget what was used.",
            "Set maxmemory-policy noeviction.",
        )
    elif facts.eviction != "noeviction":
        findings.add_warning(
            f"{facts.name} would evict keys if it had a memory limit (maxmemory-policy {facts.eviction}).",
            "Set maxmemory-policy noeviction.",
        )
    if facts.max_bytes and facts.used_bytes > _MAX_MEMORY_SHARE * facts.max_bytes:
        findings.add_warning(
            f"{facts.name} uses {facts.used_bytes / 1e6:.0f} of its {facts.max_bytes / 1e6:.0f} MB; once full, it takes no reservations.",
            "Raise maxmemory.",
        )
