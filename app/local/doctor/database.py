"""Whether PostgreSQL is there, is ours, is current, hears us, and goes by the same clock."""

import asyncio
import re

from msgspec import Struct

from app.local.doctor.finding import Finding, Findings
from app.store import condition
from app.store.away import AWAY
from app.store.condition import Condition
from app.store.database import dsn

_PATIENCE_S = 8.0
_OLDEST = 140000
_SKEW_S = 2.0
_SLOW_S = 0.1
_FULL = 0.85


class DatabaseFacts(Struct, frozen=True):
    """`address` without a password. `condition` None: it could not be asked, and `fault` says why."""

    address: str
    condition: Condition | None = None
    fault: str | None = None


async def look(database_url: str) -> DatabaseFacts:
    address = shown(database_url)
    if not database_url:
        return DatabaseFacts("", fault="no address is known")
    try:
        dsn(database_url)
        async with asyncio.timeout(_PATIENCE_S):
            return DatabaseFacts(address, await condition.look(database_url))
    except TimeoutError:
        return DatabaseFacts(address, fault=f"it did not answer within {_PATIENCE_S:.0f} s")
    except (*AWAY, ValueError) as fault:
        return DatabaseFacts(address, fault=str(fault).strip() or type(fault).__name__)


def judge(facts: DatabaseFacts) -> list[Finding]:
    found = Findings("postgres")
    now = facts.condition
    if now is None:
        if facts.address:
            found.wrong(
                f"PostgreSQL on {facts.address} could not be asked: {facts.fault}.",
                "Is it running, and is DATABASE_URL right? The password too?",
            )
        else:
            found.wrong(
                "No database is known: DATABASE_URL is not set, and no `narthex up` runs in this home.", "Start it, or set DATABASE_URL."
            )
        return found.all("")
    if now.version_number < _OLDEST:
        found.warn(f"PostgreSQL {now.version} is older than any that Narthex is tried with.", "Upgrade it to 14 or newer, best to 18.")
    _judge_tables(now, found)
    if now.is_read_only:
        found.wrong(
            f"PostgreSQL on {facts.address} takes no changes: a replica, or set to read only.", "Let DATABASE_URL name the primary."
        )
    if abs(now.skew_s) > _SKEW_S:
        ahead = "ahead of" if now.skew_s > 0 else "behind"
        found.warn(
            f"PostgreSQL's clock is {abs(now.skew_s):.1f} s {ahead} this machine's: keys expire and records are dated by one or the other.",
            "Let both machines keep their clocks (chrony, systemd-timesyncd).",
        )
    if not now.hears:
        found.wrong(
            "Notifications do not arrive: revoked keys and new configuration take effect only with the slow poll.",
            "Connect to PostgreSQL directly, or through a proxy in session mode: in transaction mode LISTEN does not work.",
        )
    if now.connections > _FULL * now.most_connections:
        found.warn(
            f"{now.connections} of PostgreSQL's {now.most_connections} connections are taken.",
            "Raise max_connections, or run fewer gateway processes: each takes up to 9.",
        )
    if now.answered_s > _SLOW_S:
        found.warn(f"PostgreSQL took {now.answered_s * 1000:.0f} ms for the simplest question.", "Is it far away, or at its limits?")
    return found.all(
        f"PostgreSQL {now.version} answers in {now.answered_s * 1000:.1f} ms, its tables are current ({now.revision}), notifications"
        f" arrive, and its clock agrees within {max(0.001, abs(now.skew_s)) * 1000:.0f} ms."
    )


def _judge_tables(now: Condition, found: Findings) -> None:
    if now.revision is None:
        found.wrong("The database has no tables of Narthex.", "`narthex migrate` makes them.")
    elif now.revision < now.newest:
        found.wrong(f"The tables are of version {now.revision}, and this Narthex needs {now.newest}.", "Run `narthex migrate`.")
    elif now.revision != now.newest:
        found.wrong(
            f"The tables are of version {now.revision}, which this Narthex does not know: its own is {now.newest}.",
            "Run the Narthex that made them, or a newer one.",
        )
    if now.directory is None or now.workers is None:
        return
    behind = [each.id for each in now.workers if each.version < now.directory.version]
    if behind:
        found.warn(
            f"These processes do not serve version {now.directory.version} of the configuration: {', '.join(behind)}.",
            "If that lasts for more than seconds, their logs tell why.",
        )


def shown(url: str) -> str:
    """An address without what may be a password: it is shown."""
    return re.sub(r"(?<=//)([^/@:]*):.*@", r"\1:...@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))
