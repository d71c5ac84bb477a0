"""Whether PostgreSQL answers, has current tables, delivers notifications, and agrees with this machine's clock."""

import asyncio

from msgspec import Struct

from app.doctor.findings import Finding, Findings
from app.doctor.mask_password import mask_password
from app.store.postgres.database import dsn
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.schema import postgres_status
from app.store.schema.postgres_status import PostgresStatus
from app.store.schema.server_versions import MIN_POSTGRES

_TIMEOUT_S = 8.0
_MAX_SKEW_S = 2.0
_MAX_RESPONSE_S = 0.1
_MAX_CONNECTION_SHARE = 0.85


class DatabaseFacts(Struct, frozen=True):
    """The state of the database. `address` has no password.

    `state` is None if the database could not be queried, and `fault` says why.
    """

    address: str
    state: PostgresStatus | None = None
    fault: str | None = None


async def collect_facts(database_url: str, direct_url: str = "") -> DatabaseFacts:
    address = mask_password(database_url)
    if not database_url:
        return DatabaseFacts("", fault="no address is known")
    try:
        dsn(database_url)
        async with asyncio.timeout(_TIMEOUT_S):
            return DatabaseFacts(address, await postgres_status.read_postgres_status(database_url, direct_url))
    except TimeoutError:
        return DatabaseFacts(address, fault=f"it did not answer within {_TIMEOUT_S:.0f} s")
    except (*DB_UNAVAILABLE_ERRORS, ValueError) as fault:
        return DatabaseFacts(address, fault=str(fault).strip() or type(fault).__name__)


def diagnose(facts: DatabaseFacts) -> list[Finding]:
    findings = Findings("postgres")
    state = facts.state
    if state is None:
        if facts.address:
            findings.add_error(
                f"PostgreSQL on {facts.address} is not reachable: {facts.fault}.",
                "Is it running, and is DATABASE_URL right, password included?",
            )
        else:
            findings.add_error(
                "No database is known: DATABASE_URL is not set, and no `narthex up` runs in this home.", "Start it, or set DATABASE_URL."
            )
        return findings.finish("")
    if state.version_number // 10_000 < MIN_POSTGRES:
        findings.add_error(f"PostgreSQL {state.version} is too old.", f"Upgrade it to {MIN_POSTGRES} or newer, best to 18.")
    _diagnose_tables(state, findings)
    if state.is_read_only:
        findings.add_error(
            f"PostgreSQL on {facts.address} takes no changes: it is a replica or read-only.", "Set DATABASE_URL to the primary."
        )
    if abs(state.skew_s) > _MAX_SKEW_S:
        ahead = "ahead of" if state.skew_s > 0 else "behind"
        findings.add_warning(
            f"PostgreSQL's clock is {abs(state.skew_s):.1f} s {ahead} this machine's: keys expire and records are dated by either.",
            "Synchronise both clocks (chrony, systemd-timesyncd).",
        )
    if state.receives_notifications is False:
        findings.add_error(
            "Notifications do not arrive: revoked keys and new configuration take effect within a second, instead of at once.",
            "Set DATABASE_DIRECT_URL to the server and database of DATABASE_URL, past any pooler; or leave it out.",
        )
    if state.connections > _MAX_CONNECTION_SHARE * state.max_connections:
        findings.add_warning(
            f"{state.connections} of PostgreSQL's {state.max_connections} connections are in use.",
            "Raise max_connections, or run fewer gateway processes: each takes up to 18.",
        )
    if state.response_s > _MAX_RESPONSE_S:
        findings.add_warning(
            f"PostgreSQL took {state.response_s * 1000:.0f} ms for the simplest query.", "Is it far away, or at its limits?"
        )
    return findings.finish(
        f"PostgreSQL {state.version} answers in {state.response_s * 1000:.1f} ms, its tables are current ({state.revision}), "
        f"{_describe_changes(state)}, and its clock agrees within {max(0.001, abs(state.skew_s)) * 1000:.0f} ms."
    )


def _describe_changes(state: PostgresStatus) -> str:
    return "notifications arrive" if state.receives_notifications else "changes are looked for every second as a pooler is between"


def _diagnose_tables(state: PostgresStatus, findings: Findings) -> None:
    if state.revision is None:
        findings.add_error("The database has no tables of Narthex.", "`narthex migrate` creates them.")
    elif state.revision < state.newest_revision:
        findings.add_error(
            f"The tables are of version {state.revision}, and this Narthex needs {state.newest_revision}.", "Run `narthex migrate`."
        )
    elif state.revision != state.newest_revision:
        findings.add_error(
            f"The tables are of version {state.revision}, which this Narthex does not know: its own is {state.newest_revision}.",
            "Run the Narthex that created them, or a newer one.",
        )
    if state.snapshot is None or state.workers is None:
        return
    behind = [each.id for each in state.workers if each.version < state.snapshot.version]
    if behind:
        findings.add_warning(
            f"These processes do not serve version {state.snapshot.version} of the configuration yet: {', '.join(behind)}.",
            "If that lasts for more than a few seconds, their logs say why.",
        )
    if state.uncounted:
        findings.add_warning(
            f"{state.uncounted:,} requests that an earlier version recorded are in no analytics.",
            "`narthex analytics backfill` counts them, while everything runs.",
        )
