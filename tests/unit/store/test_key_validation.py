"""Restrictions of keys: one that cannot be meant is refused when the key is saved."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.errors import InvalidKeyField
from app.store.keys.key_format import check_expiry, check_name, key_prefix, parse_prefix
from app.store.keys.validation import MAX_LIST_ENTRIES, ROUTES, check_models, check_networks, check_overlap, check_routes
from app.store.postgres.names import check_team

PREFIXES = st.text("0123456789abcdef", min_size=12, max_size=12)


@given(PREFIXES, st.text("abcXYZ019-_", min_size=43, max_size=43))
def test_prefix_is_read_from_a_whole_key_and_public_part_from_any_form(prefix: str, secret: str):
    key = f"nx-{prefix}-{secret}"
    assert key_prefix(key) == prefix == parse_prefix(key) == parse_prefix(f"nx-{prefix}") == parse_prefix(prefix)
    for other in (key[:-1], key + "a", key.upper(), " " + key, key + "\n", key[3:]):
        assert key_prefix(other) is None


@given(st.text(max_size=80))
def test_text_that_is_not_a_key_has_no_prefix(text: str):
    assert key_prefix(text) is None or re.fullmatch(r"nx-[0-9a-f]{12}-[\w-]{43}", text, re.ASCII)


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_team, "", "name has 1 to"),
        (check_team, " ops", "no space at its ends"),
        (check_team, "a\0b", "printable"),
        (check_team, "x" * 201, "1 to 200"),
        (check_name, "line\nbreak", "printable"),
        (check_models, [], "could not be used"),
        (check_models, ["a*b"], "not a model's name"),
        (check_models, ["ok", ""], "not a model's name"),
        (check_models, ["m" * 201], "not a model's name"),
        (check_models, [f"m{number}" for number in range(MAX_LIST_ENTRIES + 1)], "at most"),
        (check_routes, ["/v1/chat/completion"], "not a route. The routes are: /v1/chat/completions"),
        (check_routes, ["chat"], "not a route"),
        (check_routes, ["/v3/*"], "not a route"),
        (check_routes, ["/admin/v1/"], "no `routes` open"),
        (check_routes, ["/v1/models", "/admin/v1/*"], "no `routes` open"),
        (check_routes, ["/*/chat"], "not a route"),
        (check_networks, ["10.0.0.1/8"], "has host bits set"),
        (check_networks, ["ops.internal"], "not a network"),
        (check_networks, ["10.0.0.0/8", "::/200"], "not a network"),
        (check_expiry, datetime.now(UTC) - timedelta(seconds=1), "in the past"),
        (check_expiry, datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "beyond the calendar"),
        (check_overlap, -1, "from 0"),
        (check_overlap, float("nan"), "from 0"),
        (check_overlap, 1e300, "ten years"),
    ],
)
def test_invalid_key_property_is_refused_naming_the_field(check: Callable[[Any], Any], value: Any, message: str):
    with pytest.raises(InvalidKeyField) as caught:
        check(value)
    assert message in str(caught.value) and caught.value.field in check.__name__ + "_s expires_at"


@pytest.mark.parametrize("route", [*ROUTES, "/v1/*", "/*", "/v1/m*", "/v1/models/small"])
def test_route_restriction_may_be_exact_or_a_prefix(route: str):
    assert check_routes([route, route]) == [route]


def test_missing_restrictions_stay_none_and_a_naive_expiry_is_utc():
    assert check_models(None) is None and check_routes(None) is None and check_networks(None) is None and check_expiry(None) is None
    ahead = datetime(2999, 1, 1)
    assert check_expiry(ahead) == ahead.replace(tzinfo=UTC)
