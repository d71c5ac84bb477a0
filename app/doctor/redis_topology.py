"""Whether Sentinels, or the nodes of a cluster, are such that somebody takes over when a primary fails."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from app.doctor.findings import Findings
from app.gateway.limits.counters.scripts import CLUSTER_TAG
from app.store.redis.address import Address
from app.store.redis.discovery import ClusterSlots, make_discovery
from app.store.redis.opening import query_server
from app.store.redis.redis_url import RedisUrl
from app.store.redis.replies import RedisReplyError, RedisUnavailable
from app.store.redis.resp import command
from app.store.redis.slots import SLOT_COUNT, key_slot

_TIMEOUT_S = 2.0
_MIN_SENTINELS = 3


class TopologyFacts(Struct, frozen=True):
    """The facts about the servers around the primary that findings are made of. Servers are named as host:port."""

    mode: str = "server"
    primary: str = ""  # of the limits
    silent: tuple[str, ...] = ()  # hosts of REDIS_URL that did not answer as they should, each with the reason
    disagreeing: tuple[str, ...] = ()  # Sentinels that name another primary
    sentinels: int = 0  # how many know of each other
    replicas: int = 0  # of the primary
    primaries: int = 0  # of the cluster
    unowned_slots: int = 0
    cluster_state: str = "ok"


async def collect_topology(url: RedisUrl) -> tuple[Address, TopologyFacts]:
    """The primary, and what is around it. Raises RedisUnavailable."""
    primary = await make_discovery(url).find_primary(key_slot(CLUSTER_TAG))
    match url.mode:
        case "server":
            return primary, TopologyFacts()
        case "sentinel":
            return primary, await _collect_sentinels(url, primary)
        case "cluster":
            return primary, await _collect_cluster(url, primary)


async def _collect_sentinels(url: RedisUrl, primary: Address) -> TopologyFacts:
    question = command((b"SENTINEL", b"MASTER", url.service.encode()))
    answers, silent = await _query_all(url.seeds, question)
    known: list[Mapping[str, str]] = []
    for fields in answers.values():
        texts = [field.decode() for field in fields]
        known.append(dict(zip(texts[::2], texts[1::2], strict=False)))
    names = dict(zip(answers, (f"{each.get('ip')}:{each.get('port')}" for each in known), strict=True))
    return TopologyFacts(
        "sentinel",
        _name(primary),
        silent,
        tuple(f"{sentinel} ({named})" for sentinel, named in names.items() if named != _name(primary)),
        sentinels=1 + max((int(each.get("num-other-sentinels", 0)) for each in known), default=0),
        replicas=await _count_replicas(primary),
    )


async def _collect_cluster(url: RedisUrl, primary: Address) -> TopologyFacts:
    states, silent = await _query_all(url.seeds, command((b"CLUSTER", b"INFO")))
    broken = [state.decode() for state in states.values() if b"cluster_state:ok" not in state]
    slots = ClusterSlots(url)
    await slots.refresh()
    return TopologyFacts(
        "cluster",
        _name(primary),
        silent,
        replicas=await _count_replicas(primary),
        primaries=len(slots.primaries),
        unowned_slots=SLOT_COUNT - slots.owned_count,
        cluster_state="fail" if broken else "ok",
    )


async def _count_replicas(primary: Address) -> int:
    """How many follow it now."""
    (role,) = await query_server(primary, (command((b"ROLE",)),), _TIMEOUT_S)
    return len(role[2]) if role[0] == b"master" else 0


async def _query_all(servers: Sequence[Address], question: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The answers by server, and the servers that have none, with the reason."""
    replies = await asyncio.gather(*(query_server(server, (question,), _TIMEOUT_S) for server in servers), return_exceptions=True)
    answers: dict[str, Any] = {}
    silent: list[str] = []
    for server, reply in zip(servers, replies, strict=True):
        if isinstance(reply, RedisUnavailable | RedisReplyError):
            silent.append(f"{_name(server)} ({reply.__cause__ or reply})")
        elif isinstance(reply, BaseException):
            raise reply
        else:
            answers[_name(server)] = reply[0]
    return answers, tuple(silent)


def diagnose_topology(facts: TopologyFacts, findings: Findings) -> str:
    """Adds what is wrong; returns how Redis is found, to be shown where nothing is."""
    kind = "Sentinels" if facts.mode == "sentinel" else "nodes of the cluster"
    if facts.silent:
        findings.add_warning(
            f"Of the {kind} in REDIS_URL, these do not answer as they should: {'; '.join(facts.silent)}.",
            "Start them, or take them out of REDIS_URL: a process that starts while the others are away finds no Redis.",
        )
    if facts.mode == "sentinel":
        _diagnose_sentinels(facts, findings)
        return f"{facts.sentinels} Sentinels name {facts.primary} as the primary, which has {_replicas(facts)}."
    if facts.mode == "cluster":
        _diagnose_cluster(facts, findings)
        return f"A cluster of {facts.primaries} primaries; {facts.primary} has the limits, and {_replicas(facts)}."
    return ""


def _diagnose_sentinels(facts: TopologyFacts, findings: Findings) -> None:
    if facts.disagreeing:
        findings.add_error(
            f"The Sentinels do not agree: {facts.primary} is the primary, and not for {', '.join(facts.disagreeing)}.",
            "Wait if a failover is under way; else look for a network that is split, and for Sentinels with an old configuration.",
        )
    if facts.sentinels < _MIN_SENTINELS:
        findings.add_warning(
            f"{facts.sentinels} of the Sentinels know of each other: once one has failed with the primary, no majority chooses another.",
            f"Run {_MIN_SENTINELS} or more, on machines that do not fail together.",
        )
    if not facts.replicas:
        findings.add_warning(
            f"The primary on {facts.primary} has no replica: if it fails, nothing can take its place.", "Run a replica on another machine."
        )


def _diagnose_cluster(facts: TopologyFacts, findings: Findings) -> None:
    if facts.cluster_state != "ok" or facts.unowned_slots:
        findings.add_error(
            f"The cluster does not serve all of its slots: {facts.unowned_slots} have no owner, its state is {facts.cluster_state}.",
            "Bring back the node that failed, or a replica of it; CLUSTER NODES lists them.",
        )
    if not facts.replicas:
        findings.add_warning(
            f"The node on {facts.primary}, which has the limits, has no replica: if it fails, processes enforce limits by themselves.",
            "Run a replica of each node, on another machine.",
        )


def _replicas(facts: TopologyFacts) -> str:
    return "a replica" if facts.replicas == 1 else f"{facts.replicas} replicas"


def _name(address: Address) -> str:
    return f"{address.host}:{address.port}"
