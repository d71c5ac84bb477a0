"""Rules of a family by version."""

import pytest

from providers.profiles.rules_by_version import Version, rules_for_version

ROWS = [((4, 5), "4.5"), ((4, 7), "4.7"), ((5,), "5"), ((5, 5), "5.5")]


@pytest.mark.parametrize(
    ("version", "rules"),
    [
        ((3,), "4.5"),
        ((4, 5), "4.5"),
        ((4, 6), "4.5"),
        ((4, 8), "4.7"),
        ((5,), "5"),
        ((5, 0), "5"),
        ((5, 4), "5"),
        ((5, 6), "5.5"),
        ((7, 1), "5.5"),
        (None, "5.5"),
    ],
)
def test_newest_row_that_is_not_newer_counts(version: Version | None, rules: str) -> None:
    assert rules_for_version(ROWS, version) == rules
