"""The admin API says of a body that it cannot use which field is at fault, and what would be right."""

from datetime import datetime
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from app.api.rest.request_parsing import parse_admin_body, parse_query
from providers.canonical.errors import InvalidRequest


class Amount(Struct, forbid_unknown_fields=True, rename={"time_zone": "zone"}):
    usd: float
    time_zone: str = "UTC"


class Body(Struct, forbid_unknown_fields=True):
    team: str
    budget: Amount | None = None
    parts: list[Amount] = []
    expires_at: datetime | None = None
    named: dict[str, dict[str, Amount | str]] = {}
    shares: dict[str, Annotated[float, Meta(le=1)]] = {}


@pytest.mark.parametrize(
    ("raw", "message", "param"),
    [
        (b" ", "The body is empty: it must be a JSON object.", None),
        (b"1 x", "The body is not JSON: JSON is malformed: trailing characters (byte 3).", None),
        (b"{}", "`team` is required.", "team"),
        (b'{"taem": "a"}', "Unknown field `taem`. The fields are: team, budget, parts, expires_at, named, shares.", "taem"),
        (b'{"team": "a", "budget": {}}', "`budget.usd` is required.", "budget.usd"),
        (b'{"budget": {"eur": 1}}', "Unknown field `budget.eur`. The fields of `budget` are: usd, zone.", "budget.eur"),
        (b'{"parts": [{"eur": 1}]}', "Unknown field `parts[0].eur`. The fields of `parts[0]` are: usd, zone.", "parts[0].eur"),
        (
            b'{"team": "a", "expires_at": "tomorrow"}',
            "`expires_at` must be a time in ISO 8601, such as 2026-11-27T09:30:00Z.",
            "expires_at",
        ),
        (
            b'{"named": {"a": {"x": "y"}, "b.c": {"x": {"usd": 1}, "d": {"usd": 1, "eur": 1}}}}',
            "Unknown field `named.b.c.d.eur`. The fields of `named.b.c.d` are: usd, zone.",
            "named.b.c.d.eur",
        ),
        (b'{"named": {"a": {}, "b": {"c": 5}}}', "Expected text or an object, got an integer at `named.b.c`.", "named.b.c"),
        (b'{"shares": {"a": 0.5, "b": 2}}', "Expected a number <= 1.0 at `shares.b`.", "shares.b"),
        (b'{"parts": [{"usd": 1}, {"usd": {}}]}', "Expected a number, got an object at `parts[1].usd`.", "parts[1].usd"),
        (b'{"team": 5}', "Expected text, got an integer at `team`.", "team"),
    ],
)
def test_a_refused_body_names_the_field_and_what_would_be_right(raw: bytes, message: str, param: str | None):
    with pytest.raises(InvalidRequest) as refused:
        parse_admin_body(raw, Body)
    assert (str(refused.value), refused.value.param) == (message, param)


class _Query(Struct, frozen=True, forbid_unknown_fields=True):
    outcome: Literal["answered", "failed"] | tuple[Literal["answered", "failed"], ...] | None = None


def test_a_repeated_parameter_with_a_wrong_value_is_refused_by_its_name():
    assert parse_query(b"outcome=answered&outcome=failed", _Query).outcome == ("answered", "failed")
    with pytest.raises(InvalidRequest, match="answered") as refused:
        parse_query(b"outcome=null&outcome=null", _Query)
    assert (refused.value.param or "").startswith("outcome")
