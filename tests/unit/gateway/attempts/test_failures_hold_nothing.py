"""Failed attempts hold nothing of the request once it has ended: what its frames held is freed at once, not at a garbage collection."""

import gc
import weakref

import pytest

from app.gateway.attempts.attempt_failures import Failures, Rank
from providers.canonical.errors import InvalidUpstreamResponse, NarthexError, UpstreamFailed


class Held:
    """Stands for the bodies that the frames of a request hold."""


def fail_twice(then_serve: bool) -> weakref.ref[Held]:
    """Fails twice as attempts do, and returns a reference to what the frames held.

    Failures are kept while others are tried, and one of them is raised in the end, unless a target serves.
    """
    held, failures = Held(), Failures()
    for _ in range(2):
        try:
            try:
                raise ValueError("the host's answer is no JSON")
            except ValueError:
                raise InvalidUpstreamResponse("No answer.") from None
        except InvalidUpstreamResponse as error:
            failures.add(Rank.UPSTREAM, error)
    reference = weakref.ref(held)
    if then_serve:
        return reference
    try:
        raise failures.most_useful("m")
    except NarthexError as error:
        error.without_frames()
    return reference


@pytest.mark.parametrize("then_serve", [False, True], ids=["failed", "served by another target"])
def test_request_is_freed_when_it_has_ended(then_serve: bool):
    gc.disable()
    try:
        assert fail_twice(then_serve)() is None
    finally:
        gc.enable()


def test_errors_in_a_circle_are_let_go_too():
    one, other = UpstreamFailed("one"), UpstreamFailed("other")
    one.__context__, other.__context__ = other, one
    with pytest.raises(UpstreamFailed):
        raise one
    assert one.without_frames().__traceback__ is None
