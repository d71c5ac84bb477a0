"""Settings of teams are stored in the columns of their names, and in `restrictions`."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.domain.callers import MaskConfig, TeamConfig, TeamLimit
from app.domain.errors import InvalidKeyField
from app.store.keys.team_columns import COLUMNS, SETTINGS, from_restrictions_column, from_team_columns, team_columns

EVERYTHING = TeamConfig(
    content="masked",
    drop="all",
    priority=-5,
    mask=MaskConfig(("email",), {"number": "E[0-9]+"}),
    search=True,
    models=("a", "b*"),
    routes=(),
    networks=("10.0.0.0/8",),
    limits=(TeamLimit("requests", 5, "minute"),),
    fallbacks="allowed",
)


def row(columns: dict[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**columns)


def test_each_setting_is_read_as_it_was_stored() -> None:
    assert all(getattr(EVERYTHING, name) != getattr(TeamConfig(), name) for name in SETTINGS)
    for team in (EVERYTHING, TeamConfig()):
        columns = team_columns(team)
        assert columns.keys() == {column.name for column in COLUMNS}
        assert from_team_columns(row(columns)) == team


def test_a_team_without_restrictions_has_null_for_them() -> None:
    assert team_columns(TeamConfig(priority=3))["restrictions"] is None


def test_restrictions_are_read_as_a_driver_gives_them() -> None:
    stored = team_columns(EVERYTHING)["restrictions"]
    as_text = msgspec.json.encode(stored).decode()
    assert from_restrictions_column(as_text) == from_restrictions_column(stored) == msgspec.convert(stored, TeamConfig)


def test_only_the_columns_of_given_settings_are_written() -> None:
    assert team_columns(EVERYTHING, ("priority", "drop")) == {"priority": -5, "drop": ["all"]}
    assert team_columns(EVERYTHING, ()) == {}
    # They share a column, so that one of them brings the others.
    assert team_columns(EVERYTHING, ("models",)) == {"restrictions": team_columns(EVERYTHING)["restrictions"]}


def test_a_setting_that_its_column_refuses_is_named() -> None:
    with pytest.raises(InvalidKeyField, match=r"mask\.patterns"):
        team_columns(TeamConfig(mask=MaskConfig(patterns={"number": "("})))
