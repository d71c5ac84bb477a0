"""Logs of errors of Postgres say nothing of the rows that they are about."""

from typing import Any, cast

import asyncpg
import pytest

from app.store.postgres.db_errors import connection_advice, describe_without_values, is_outage


def test_description_leaves_out_the_detail_which_names_values():
    fields = {"C": "23505", "M": "duplicate key value", "D": "Key (value)=(ann@example.com) already exists."}
    error = cast(Any, asyncpg.PostgresError).new(fields)
    assert "ann@example.com" in str(error), "else there would be nothing to leave out"
    assert describe_without_values(error) == "UniqueViolationError: duplicate key value"


def of_postgres(kind: type[asyncpg.PostgresError], message: str) -> asyncpg.PostgresError:
    return cast(Any, asyncpg.PostgresError).new({"C": cast(Any, kind).sqlstate, "M": message})


RUNNING = {
    "starting": of_postgres(asyncpg.CannotConnectNowError, "the database system is starting up"),
    "stopping": of_postgres(asyncpg.AdminShutdownError, "terminating connection due to administrator command"),
    "full": of_postgres(asyncpg.TooManyConnectionsError, "sorry, too many clients already"),
    "locked": of_postgres(asyncpg.LockNotAvailableError, "canceling statement due to lock timeout"),
    "slow": TimeoutError(),
    "pooler": of_postgres(asyncpg.ProtocolViolationError, "query_wait_timeout"),
    "reset": ConnectionResetError(104, "Connection reset by peer"),
}


@pytest.mark.parametrize("error", RUNNING.values(), ids=RUNNING)
def test_nobody_is_advised_to_start_a_server_that_runs(error: Exception):
    advice = connection_advice(error)
    assert advice and "Start PostgreSQL" not in advice


def test_whoever_finds_nothing_at_the_address_is_advised_to_start_a_server():
    assert "Start PostgreSQL" in (connection_advice(ConnectionRefusedError(111, "Connection refused")) or "")


def test_outage_is_what_ends_connections_and_not_what_a_statement_is_refused_for():
    outages = [error for name, error in RUNNING.items() if name != "locked"]
    assert all(map(is_outage, (*outages, asyncpg.InterfaceError("connection is closed"))))
    refused = of_postgres(asyncpg.UndefinedColumnError, "column does not exist")
    assert not any(map(is_outage, (RUNNING["locked"], refused, of_postgres(asyncpg.QueryCanceledError, "statement timeout"))))
