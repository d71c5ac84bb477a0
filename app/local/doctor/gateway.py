"""Whether the gateway answers, and what it says of itself."""

import time

import httpx
import msgspec
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from app.local.doctor.finding import Finding, Findings
from app.local.listeners import reachable_url
from app.settings import Settings

_PATIENCE_S = 3.0
_SLOW_S = 0.5


class Health(Struct, frozen=True):
    """What /health/ready tells."""

    status: str
    configuration: int
    postgres: str
    spool_bytes: int = 0
    records_lost: int = 0


class GatewayFacts(Struct, frozen=True):
    """`health` None: what answers is not a gateway of ours. `fault`: why nothing answered; `hangs`: it takes connections.

    Losses are since the start, of all processes."""

    url: str
    status: int | None = None
    answered_s: float = 0.0
    health: Health | None = None
    fault: str | None = None
    records_lost: int = 0
    content_lost: int = 0
    hangs: bool = False


async def look(settings: Settings) -> GatewayFacts:
    url = reachable_url(settings)
    async with httpx.AsyncClient(base_url=url, timeout=_PATIENCE_S, trust_env=False) as client:
        began = time.monotonic()
        try:
            answer = await client.get("/health/ready")
            answered_s = time.monotonic() - began
            lost = _lost((await client.get("/metrics")).text)
        except (httpx.ReadTimeout, httpx.WriteTimeout):
            return GatewayFacts(url, fault=f"no word within {_PATIENCE_S:.0f} s", hangs=True)
        except (httpx.HTTPError, httpx.InvalidURL) as fault:
            return GatewayFacts(url, fault=str(fault) or type(fault).__name__)
    try:
        health = msgspec.json.decode(answer.content, type=Health)
    except (msgspec.DecodeError, UnicodeDecodeError):
        health = None
    return GatewayFacts(
        url, answer.status_code, answered_s, health, None, lost.get("narthex_records_lost", 0), lost.get("narthex_content_lost", 0)
    )


def judge(facts: GatewayFacts) -> list[Finding]:
    found = Findings("gateway")
    health = facts.health
    if facts.hangs:
        found.wrong(
            f"What listens on {facts.url} takes connections and does not answer ({facts.fault}).",
            "If it stays so, end the gateway's process (`narthex status` has its number): another is started. Its log may say why.",
        )
    elif facts.fault is not None:
        found.wrong(
            f"Nothing answers on {facts.url} ({facts.fault}).",
            "Start it with `narthex up` or `narthex serve`, or see NARTHEX_HOST and NARTHEX_PORT.",
        )
    elif health is None:
        found.wrong(f"What answers on {facts.url} is not Narthex (status {facts.status}).", "Set NARTHEX_PORT to a port of Narthex's own.")
    else:
        if health.status != "ready":
            found.wrong(
                f"The gateway on {facts.url} is {health.status}: it takes no new requests.", "Wait until it has ended, then start it."
            )
        if health.postgres != "connected":
            found.wrong(
                "The gateway cannot ask PostgreSQL: it serves by what it knows, and keys that it never met are refused.",
                "Bring PostgreSQL back; nothing needs a restart.",
            )
        if facts.answered_s > _SLOW_S:
            found.warn(f"The gateway took {facts.answered_s:.1f} s to say that it is well.", "See whether the machine has too much to do.")
    if facts.records_lost:
        found.wrong(
            f"{facts.records_lost} records are lost since the start: the spool could not be written.",
            "Make space on the disk of NARTHEX_HOME; the gateway's log names the exchanges.",
        )
    if facts.content_lost:
        found.warn(
            f"Of {facts.content_lost} records the content was not kept, for want of space.", "Make space on the disk of NARTHEX_HOME."
        )
    return found.all(f"The gateway answers on {facts.url} and has lost no record.")


def _lost(page: str) -> dict[str, int]:
    try:
        return {family.name: int(sum(each.value for each in family.samples)) for family in text_string_to_metric_families(page)}
    except ValueError:  # another program's page
        return {}
