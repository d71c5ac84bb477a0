"""Tables of cases that one test compares as a whole: a failure lists every case that fails, and not only the first."""

import traceback
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

Case = TypeVar("Case")


def failed_cases(check: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> list[str]:
    """Each case for which `check(*case)` raises, with what it raises and where."""
    return [f"{repr(case)[:300]}: {failure}" for case in cases if (failure := _failure(check, *case))]


def assert_every(check: Callable[[Case], None], cases: Iterable[Case]) -> None:
    """Fails once, with every case for which `check(case)` raises."""
    assert failed_cases(check, ((case,) for case in cases)) == []


def one_test_per_group(
    cases: Iterable[Case], *, group: Callable[[Case], str], name: Callable[[Case], str]
) -> Callable[[Callable[[Case], None]], Callable[[str], None]]:
    """Turn the check of one case into a test per group, by the group's name. The failure has each failing case and its assertion."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(group(case), []).append(case)
    assert groups, "a table without cases tests nothing"

    def decorate(check: Callable[[Case], None]) -> Callable[[str], None]:
        def test(group: str) -> None:
            failures = {name(case): failure for case in groups[group] if (failure := _failure(check, case))}
            if failures:
                listed = "\n\n".join(f"{case}: {failure}" for case, failure in failures.items())
                pytest.fail(f"{len(failures)} of {len(groups[group])} cases fail\n\n{listed}", pytrace=False)

        test.__name__, test.__qualname__, test.__doc__, test.__module__ = (
            check.__name__,
            check.__qualname__,
            check.__doc__,
            check.__module__,
        )
        return pytest.mark.parametrize("group", list(groups))(test)

    return decorate


def _failure(check: Callable[..., None], *case: Any) -> str | None:
    """Returns what is wrong with a case, and the line that found it, or None if nothing is."""
    try:
        check(*case)
    except (Exception, pytest.fail.Exception) as error:
        frames = traceback.extract_tb(error.__traceback__)
        checked_in = getattr(check, "__code__", None)
        frame = next((each for each in reversed(frames) if checked_in and each.filename == checked_in.co_filename), frames[-1])
        return f"line {frame.lineno}: {type(error).__name__}: {str(error)[:2000]}"
    return None
