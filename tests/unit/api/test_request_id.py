"""X-Request-Id is taken over where it is safe text."""

import pytest

from app.api.server.request_id import own_request_id


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "7f3c1b0e9a5d4c2f8e6b1a0d9c8b7a65",
        "0192f3a1-7c1e-7d5e-9b1a-2f6f0c1d2e3f",
        "Root=1-67891233-abcdef012345678912345678",
        "x" * 128,
    ],
)
def test_safe_id_is_taken_over(value: str):
    assert own_request_id(value.encode()) == value


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "x" * 129, "a b", "a\tb", 'a"b', "a,b", "a;b", "é", "a\nb", "a\r\nset-cookie: b", "$(a)", "<a>"),
        *("nx-0123456789ab-secret", "id:nx-0123456789ab", "sk-proj-abc", "AKIA0123", "ghp_0123"),
    ],
)
def test_other_text_is_not(value: str | None):
    assert own_request_id(None if value is None else value.encode("utf-8")) is None
