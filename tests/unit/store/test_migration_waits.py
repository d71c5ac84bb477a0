"""A report of a statement that holds up a migration says enough to know it again, and no value."""

import pytest

from app.store.schema.migration_waits import first_words

STATEMENTS = {
    "select": ("SELECT id, received_at FROM inferences WHERE tag = 'acme'", "SELECT id"),
    "update": ("  update keys\n  set name = 'x'", "update keys set"),
    "password": ("ALTER ROLE ann PASSWORD 'hunter2'", "ALTER ROLE ann"),
    "setting": ("SET app.token = hunter2", "SET app.token"),
    "comment": ("/* token hunter2 */ SELECT 1", ""),
    "hidden": ("<insufficient privilege>", ""),
    "none": ("", ""),
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_first_words_name_the_statement_and_no_value(name: str) -> None:
    statement, words = STATEMENTS[name]
    assert first_words(statement) == words
