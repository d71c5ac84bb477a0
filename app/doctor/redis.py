"""Whether Redis or Valkey answers, takes writes, and keeps the counters of limits."""

import asyncio
import time
from collections.abc import Mapping

from msgspec import Struct

from app.doctor.findings import Finding, Findings
from app.doctor.mask_password import mask_password
from app.doctor.redis_topology import TopologyFacts, collect_topology, diagnose_topology
from app.store.redis.address import Address
from app.store.redis.redis_url import parse_redis_url
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.redis.server_connection import ServerConnection
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
    topology: TopologyFacts = TopologyFacts()


async def collect_facts(url: str) -> RedisFacts:
    """The facts about the server that takes writes: the one that is named, or the one that is found."""
    address = mask_password(url)
    if not url:
        return RedisFacts("", fault="no address is known")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            primary, topology = await collect_topology(parse_redis_url(url))
            return await _collect_server(address, primary, topology)
    except TimeoutError:
        return RedisFacts(address, fault=f"it did not answer within {_TIMEOUT_S:.0f} s")
    except (ValueError, RedisUnavailable, RedisReplyError) as fault:
        return RedisFacts(address, fault=str(fault.__cause__ or fault))


async def _collect_server(address: str, primary: Address, topology: TopologyFacts) -> RedisFacts:
    async def find_primary() -> Address:
        return primary

    server = ServerConnection(find_primary, _TIMEOUT_S)
    try:
        await server.call(command((b"PING",)))
        sent_at = time.time()
        seconds, micros = await server.call(command((b"TIME",)))
        answered_s = time.time() - sent_at
        runs_scripts = await _runs_scripts(server)
        info = _read_info(await server.call(command((b"INFO", b"all"))))
    finally:
        await server.close()
    return RedisFacts(
        address,
        name="Valkey" if "valkey_version" in info else "Redis",
        version=info.get("valkey_version") or info.get("redis_version", ""),
        answered_s=answered_s,
        skew_s=int(seconds) + int(micros) / 1e6 - (sent_at + answered_s / 2),
        is_replica=info.get("role") in ("slave", "replica"),
        is_cluster=info.get("cluster_enabled") == "1",
        appends=info.get("aof_enabled") == "1",
        last_write_failed="err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")),
        eviction=info.get("maxmemory_policy", "noeviction"),
        used_bytes=int(info.get("used_memory", 0)),
        max_bytes=int(info.get("maxmemory", 0)),
        runs_scripts=runs_scripts,
        topology=topology,
    )


def _read_info(reply: bytes) -> Mapping[str, str]:
    lines = (line.partition(":") for line in reply.decode(errors="replace").splitlines())
    return {name: value for name, _, value in lines}


async def _runs_scripts(server: ServerConnection) -> bool:
    """Whether this user may run scripts; a user with few rights may not."""
    try:
        await server.call(command((b"EVAL", b"return 1", b"0")))
    except RedisReplyError:
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
        findings.add_error(
            f"{facts.name} on {facts.address} is a replica, which takes no changes.", "Set REDIS_URL to the primary, or to Sentinels."
        )
    if facts.is_cluster and facts.topology.mode != "cluster":
        findings.add_error(
            f"{facts.name} on {facts.address} is a node of a cluster, and REDIS_URL names it as a server of its own.",
            "Write redis+cluster://HOST:PORT,HOST:PORT with some of its nodes.",
        )
    topology = diagnose_topology(facts.topology, findings)
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
    all_clear = (
        f"{facts.name} {facts.version} answers in {facts.answered_s * 1000:.1f} ms, keeps its data over a restart and evicts nothing."
    )
    return findings.finish(f"{all_clear} {topology}".rstrip())


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
