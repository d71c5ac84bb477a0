"""Tables of cases that one test compares as a whole: a failure lists every case that differs."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def failed_cases(check: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> list[str]:
    """Each case for which `check(*case)` raises, with what it raises."""
    failures: list[str] = []
    for case in cases:
        try:
            check(*case)
        except (Exception, pytest.fail.Exception) as error:
            failures.append(f"{repr(case)[:300]}: {type(error).__name__}: {str(error)[:500]}")
    return failures


def assert_every(check: Callable[[Case], None], cases: Iterable[Case]) -> None:
    """Fails once, with every case for which `check(case)` raises."""
    assert failed_cases(check, ((case,) for case in cases)) == []
