"""What logs say of errors of Postgres: nothing of the rows that they are about."""

from typing import Any, cast

import asyncpg

from app.store.db_errors import describe_without_values


def test_description_leaves_out_the_detail_which_names_values():
    fields = {"C": "23505", "M": "duplicate key value", "D": "Key (value)=(ann@example.com) already exists."}
    error = cast(Any, asyncpg.PostgresError).new(fields)
    assert "ann@example.com" in str(error), "else there would be nothing to leave out"
    assert describe_without_values(error) == "UniqueViolationError: duplicate key value"
