"""One team attacks in every way that we know of; another team's latency, errors and charges stay as they were."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.support.hostile_team.attacks import ATTACKS
from tests.support.two_teams import TEAM_BODY_BYTES, AttackReport, TwoTeams, two_teams

# What a worker may use more while one team attacks: bodies as they came, as they are decoded, and as they are sent on,
# with the copies while one is written. docs/operations.md names this factor.
_MAX_MORE_BYTES = 4 * TEAM_BODY_BYTES
# What one response of the quiet team costs: 3 tokens at 1 and 2 at 10 dollars per million.
_QUIET_CHARGE = {"charged_input": 3, "charged_output": 2, "cost_microusd": 23, "charge_basis": "reported", "outcome": "answered"}
_REFUSED = {
    "items_over_the_cap": {"400"},
    "unknown_keys": {"400"},
    "deep": {"400"},
    "wrong_items": {"400"},
    "repeated_list": {"422"},
    "masked_own_patterns": {"422"},
    "media_addresses": {"400"},
    "unknown_responses": {"400", "404"},
}
_BOUND_FIELDS = ("max_tokens", "max_completion_tokens", "n_predict", "max_new_tokens", "generation_config")


@pytest.fixture(scope="module")
async def teams() -> AsyncGenerator[TwoTeams]:
    async with two_teams() as started:
        yield started


def _new_schema(number: int) -> Any:
    """Returns a response format with a new schema for one request in twenty, and None for the others."""
    if number % 20:
        return None
    schema = {"type": "object", "title": f"schema {number}", "properties": {"a": {"type": "string"}}}
    return {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}


@pytest.mark.parametrize("name", list(ATTACKS))
async def test_attack_does_another_team_no_harm(teams: TwoTeams, name: str):
    sent, since_id = teams.sent, teams.new_id()
    report = await teams.attack(name)
    assert report.is_unharmed, str(report)
    assert all(each.statuses.keys() == {200} for both in report.rounds for each in both), report
    assert report.peak_bytes - teams.first_bytes < _MAX_MORE_BYTES, report
    assert not report.faults and report.statuses.keys() <= _REFUSED.get(name, report.statuses.keys()), report
    charges = [{field: row[field] for field in _QUIET_CHARGE} for row in await teams.records("quiet", since_id)]
    assert charges == [_QUIET_CHARGE] * (teams.sent - sent)
    _check_own_charges(report, await teams.records("hostile", since_id))


def _check_own_charges(report: AttackReport, records: list[dict[str, Any]]) -> None:
    """The hostile team is charged what its host answered, and what it may have done for those who left."""
    # A response that violates its constraint is an error for the caller, and charged.
    answered = [row for row in records if row["charge_basis"] == "reported"]
    assert {(row["charged_input"], row["charged_output"]) for row in answered} <= {(3, 2)}
    assert len(answered) >= report.answered - sum(row["outcome"] == "disconnected" for row in records)


async def test_new_constraints_of_a_team_are_checked_while_another_floods_the_check(teams: TwoTeams):
    teams.engine_answer = '{"a": "b"}'
    report = await teams.attack("heavy_constraints", response_format=_new_schema)
    assert all(each.statuses.keys() == {200} for both in report.rounds for each in both), report


@pytest.mark.parametrize(("name", "charged"), [("hang_ups", (100_000, "reserved")), ("hang_ups_at_an_engine", (0, "received"))])
async def test_hanging_up_is_charged_by_whether_the_host_goes_on(teams: TwoTeams, name: str, charged: tuple[int, str]):
    since_id = teams.new_id()
    report = await teams.attack(name)
    records = await teams.records("hostile", since_id)
    assert len(records) >= report.received > 0
    assert {(row["outcome"], row["charged_output"], row["charge_basis"]) for row in records} == {("disconnected", *charged)}


async def test_no_word_of_an_engine_passes_a_bound(teams: TwoTeams):
    report = await teams.attack("engine_words")
    assert report.bodies
    bounds = [{name: body[name] for name in _BOUND_FIELDS if name in body} for body in report.bodies]
    assert all(list(each.values()) == [1] for each in bounds), bounds[:10]


async def test_fields_of_a_gateway_and_of_places_do_not_travel(teams: TwoTeams):
    since_id = teams.new_id()
    for name, fields in (
        ("reserved_fields", ("very-secret",)),
        ("travelling_fields", ("lora_path", "kv_transfer_params", "salt-of-another-team")),
    ):
        report = await teams.attack(name)
        assert not any(field in str(body) for body in report.bodies for field in fields)
    assert "very-secret" not in str(await teams.records("hostile", since_id))
    assert (await teams.attack("media_addresses")).received == 0
