"""Whether the gateway answers, and what it reports about itself."""

import time
from collections.abc import Mapping

import httpx2
import msgspec
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from app.doctor.findings import Finding, Findings
from app.process.home_id import identify_home
from app.settings import Settings
from app.supervisor.machine.gateway_url import reachable_admin_url, reachable_url, tls_verification

_TIMEOUT_S = 3.0
_MAX_RESPONSE_S = 0.5
_MAX_REVOCATION_LAG_S = 10.0


class RefusingLimits(Struct, frozen=True):
    """Rules that refuse every request, as Redis has lost its memory."""

    rules: int
    since: str
    until: str  # at the latest (ISO 8601)
    waiting_for: str | None = None  # what has to happen before their windows are rebuilt; None: they stay full by their `after_loss`


class Health(Struct, frozen=True):
    """The response of /health/ready."""

    status: str
    configuration: int
    postgres: str
    spool_bytes: int = 0
    records_lost: int = 0
    revocation_lag_s: float = 0.0
    failing_tasks: Mapping[str, str] = {}
    limits_refusing: RefusingLimits | None = None
    home: str | None = None


class GatewayFacts(Struct, frozen=True):
    """The facts about the gateway that findings are made of. Losses are those of all processes since their start."""

    url: str
    status: int | None = None
    answered_s: float = 0.0
    health: Health | None = None  # None: what answers is not Narthex
    fault: str | None = None  # why there was no response
    records_lost: int = 0
    content_lost: int = 0
    hangs: bool = False  # whether it accepts connections although there was no response
    is_own: bool = True  # False: it is the gateway of another home
    tasks_failing: int = 0  # of all processes
    revocation_lag_s: float = 0.0  # the longest of all processes
    admin_url: str = ""
    admin_fault: str | None = None  # why the admin API's own address did not answer; None: it did, or there is none


async def collect_facts(settings: Settings) -> GatewayFacts:
    url, admin_url = reachable_url(settings), reachable_admin_url(settings)
    verification = tls_verification(settings, url)
    async with httpx2.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=verification) as client:
        started_at = time.monotonic()
        try:
            response = await client.get(f"{url}/health/ready")
            answered_s = time.monotonic() - started_at
        except (httpx2.ReadTimeout, httpx2.WriteTimeout):
            return GatewayFacts(url, fault=f"no response within {_TIMEOUT_S:.0f} s", hangs=True)
        except (httpx2.HTTPError, httpx2.InvalidURL) as fault:
            return GatewayFacts(url, fault=str(fault) or type(fault).__name__)
        admin_fault = await _find_fault(client, admin_url) if settings.admin_port else None
        metrics = await _scrape(client, admin_url, settings)
    try:
        health = msgspec.json.decode(response.content, type=Health)
    except (msgspec.DecodeError, UnicodeDecodeError):
        health = None
    return GatewayFacts(
        url,
        response.status_code,
        answered_s,
        health,
        None,
        # Where that page is closed (setting `metrics`) or takes too long, at least the answering process reports its own losses.
        int(metrics.get("narthex_records_lost", 0 if health is None else health.records_lost)),
        int(metrics.get("narthex_content_lost", 0)),
        is_own=health is None or health.home is None or health.home == identify_home(settings.home),
        tasks_failing=max(int(metrics.get("narthex_background_tasks_failing", 0)), len(health.failing_tasks) if health else 0),
        revocation_lag_s=max(metrics.get("narthex_revocation_lag_seconds", 0.0), health.revocation_lag_s if health else 0.0),
        admin_url=admin_url,
        admin_fault=admin_fault,
    )


def diagnose(facts: GatewayFacts) -> list[Finding]:
    findings = Findings("gateway")
    health = facts.health
    if facts.hangs:
        findings.add_error(
            f"What listens on {facts.url} accepts connections but does not answer ({facts.fault}).",
            "If that lasts, end the gateway's process (`narthex status` shows its number): another is started. Its log may say why.",
        )
    elif facts.fault is not None:
        findings.add_error(
            f"Nothing answers on {facts.url} ({facts.fault}).",
            "Start it with `narthex up` or `narthex serve`, or check NARTHEX_HOST and NARTHEX_PORT.",
        )
    elif health is None:
        findings.add_error(
            f"What answers on {facts.url} is not Narthex (status {facts.status}).", "Set NARTHEX_PORT to a port of Narthex's own."
        )
    elif not facts.is_own:
        findings.add_error(
            f"What answers on {facts.url} is the gateway of another home.",
            "Set NARTHEX_PORT to the port of this home's gateway, or NARTHEX_HOME to the home of that one.",
        )
    else:
        if health.status != "ready":
            findings.add_error(
                f"The gateway on {facts.url} is {health.status}: it takes no new requests.", "Wait until it has ended, then start it."
            )
        if health.postgres != "connected":
            findings.add_error(
                "The gateway cannot reach PostgreSQL: it serves with what it has in memory, and refuses keys that it has not seen before.",
                "Bring PostgreSQL back; nothing needs a restart.",
            )
        if facts.tasks_failing:
            named = ", ".join(f"{task} ({failure})" for task, failure in health.failing_tasks.items())
            findings.add_error(
                f"{facts.tasks_failing} background tasks of the gateway fail{f': {named}' if named else ''}.",
                "Look for `a background task failed` in the gateway's log: it has the errors.",
            )
        if refusing := health.limits_refusing:
            findings.add_error(
                f"Redis lost its memory at {refusing.since}. What {refusing.rules} limits had counted is not known, so they refuse every "
                f"request, until {refusing.until} at the latest.",
                _loss_advice(refusing),
            )
        if facts.revocation_lag_s > _MAX_REVOCATION_LAG_S:
            findings.add_error(
                f"A gateway process last had current keys {facts.revocation_lag_s:.0f} s ago: keys revoked since are still taken.",
                "Bring PostgreSQL back. If it runs, look for `a background task failed` in the gateway's log.",
            )
        if facts.answered_s > _MAX_RESPONSE_S:
            findings.add_warning(
                f"The gateway took {facts.answered_s:.1f} s to report its health.", "Check whether the machine has too much to do."
            )
    if facts.admin_fault is not None:
        findings.add_error(
            f"The admin API does not answer on {facts.admin_url} ({facts.admin_fault}).",
            "Check NARTHEX_ADMIN_HOST and NARTHEX_ADMIN_PORT: the gateway must have been started with the same.",
        )
    if facts.records_lost:
        findings.add_error(
            f"{facts.records_lost} records were lost since the start: the spool could not be written.",
            "Make space on the disk of NARTHEX_HOME; the gateway's log names the exchanges.",
        )
    if facts.content_lost:
        findings.add_warning(
            f"{facts.content_lost} records were kept without their content, for lack of space.", "Make space on the disk of NARTHEX_HOME."
        )
    return findings.finish(f"The gateway answers on {facts.url} and has lost no record.")


def _loss_advice(refusing: RefusingLimits) -> str:
    if refusing.waiting_for is None:
        return 'They have after_loss = "spent". Apply them with "empty" to let requests pass at once: nothing counts as used then.'
    return (
        f"They are rebuilt from the records; that waits for {refusing.waiting_for}. If it lasts: do PostgreSQL and the writers of all "
        "machines run? The gateway's log says more (`windows`)."
    )


def _admin_header(settings: Settings) -> dict[str, str]:
    """The key that /metrics may need (setting `metrics`), where this home has one."""
    try:
        key = (settings.home / "admin-key").read_text().strip()
    except OSError:
        return {}
    return {"authorization": f"Bearer {key}"} if key else {}


async def _find_fault(client: httpx2.AsyncClient, url: str) -> str | None:
    """Returns why there is no response from an address, or None if there is one."""
    try:
        status = (await client.get(f"{url}/health/live")).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL) as fault:
        return str(fault) or type(fault).__name__
    return None if status == 200 else f"status {status}"


async def _scrape(client: httpx2.AsyncClient, url: str, settings: Settings) -> dict[str, float]:
    """The sum of each metric's samples; empty where there is no such page."""
    try:
        page = await client.get(f"{url}/metrics", headers=_admin_header(settings))
    except httpx2.HTTPError:
        return {}
    return _read_metrics(page.text) if page.status_code == 200 else {}


def _read_metrics(metrics_page: str) -> dict[str, float]:
    """The sum of each metric's samples."""
    try:
        return {family.name: sum(each.value for each in family.samples) for family in text_string_to_metric_families(metrics_page)}
    except ValueError:  # the page of another program
        return {}
