"""Memory for bodies: bounded for each key, each team and the worker, and never so that a single body could not be sent."""

import contextlib
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.callers import Caller
from app.gateway.memory.body_memory import BodyClaim, BodyMemory
from app.settings import Settings
from providers.canonical.errors import BodyMemoryExceeded, NarthexError, Unavailable

MB = 1_000_000
BLUE_1, BLUE_2, RED = (Caller(key, team, team, "full") for key, team in (("b1", "blue"), ("b2", "blue"), ("r", "red")))
MEMORY = Settings(bodies_max_bytes_key=4 * MB, bodies_max_bytes_team=6 * MB, bodies_max_bytes_worker=9 * MB)


def claim_of(memory: BodyMemory, caller: Caller, size_bytes: int) -> BodyClaim:
    claim = memory.claim(caller)
    claim.grow_to(size_bytes)
    return claim


def test_key_team_and_worker_each_have_a_bound_and_room_returns_with_a_release() -> None:
    memory = BodyMemory(MEMORY)
    claims = [claim_of(memory, BLUE_1, 2 * MB), claim_of(memory, BLUE_1, 2 * MB)]
    with pytest.raises(BodyMemoryExceeded, match=r"this key.*4000000 bytes") as refused:
        claim_of(memory, BLUE_1, 1)
    assert (refused.value.status, refused.value.retry_after_s) == (429, 1)
    claims.append(claim_of(memory, BLUE_2, 2 * MB))
    with pytest.raises(BodyMemoryExceeded, match=r"your team.*6000000 bytes"):
        claim_of(memory, BLUE_2, 1)
    claims.append(claim_of(memory, RED, 2 * MB))
    with pytest.raises(Unavailable) as full:
        claim_of(memory, RED, 2 * MB)
    assert full.value.retry_after_s == 1
    for claim in claims:
        claim.release()
    assert (memory.held_bytes, dict(memory.of_teams), dict(memory.of_keys)) == (0, {}, {})


def test_single_body_larger_than_the_bound_is_accepted_and_grows() -> None:
    memory = BodyMemory(MEMORY)
    claim = claim_of(memory, RED, 20 * MB)
    claim.add(20 * MB)
    with pytest.raises(NarthexError):
        claim_of(memory, RED, 1)


def test_upload_counts_before_its_bytes_come() -> None:
    """Slow uploads without a Content-Length hold connections and buffers, however little has come."""
    memory = BodyMemory(MEMORY)
    with pytest.raises(BodyMemoryExceeded):
        for _ in range(100):
            memory.claim(RED).declare(0)


def test_declared_sizes_take_nothing_from_other_teams() -> None:
    """Twenty connections that declare 20 MB each, and send a byte: they are bounded, and nobody else is."""
    memory, refused = BodyMemory(MEMORY), 0
    for caller in [BLUE_1] * 10 + [BLUE_2] * 10 + [Caller("g", "green", "green", "full")] * 10:
        claim = memory.claim(caller)
        try:
            claim.declare(2 * MB)
            claim.grow_to(1)
        except BodyMemoryExceeded:
            refused += 1
    assert (refused, memory.held_bytes) == (25, 5)
    claim = memory.claim(RED)
    claim.declare(4 * MB)
    claim.grow_to(4 * MB)


def test_teams_that_hold_what_they_may_leave_some_for_another() -> None:
    memory = BodyMemory(Settings(bodies_max_bytes_key=25 * MB, bodies_max_bytes_team=25 * MB, bodies_max_bytes_worker=100 * MB))
    for team in "abcd":
        with contextlib.suppress(NarthexError):
            while True:
                claim_of(memory, Caller(team, team, team, "full"), MB)
    assert memory.held_bytes >= 90 * MB
    for _ in range(4):
        claim_of(memory, RED, MB)


class Declared(NamedTuple):
    caller: Caller
    claim: BodyClaim


steps = st.tuples(st.sampled_from([BLUE_1, BLUE_2, RED]), st.integers(0, 3 * MB), st.booleans())


@given(st.lists(steps, max_size=30))
def test_counts_are_the_sums_of_the_open_claims_whatever_was_refused(history: list[tuple[Caller, int, bool]]) -> None:
    memory = BodyMemory(MEMORY)
    open_claims: list[Declared] = []
    for caller, size_bytes, releases in history:
        claim = memory.claim(caller)
        open_claims.append(Declared(caller, claim))
        for enlarge in (claim.declare, claim.grow_to, claim.add):
            with contextlib.suppress(NarthexError):
                enlarge(size_bytes)
        if releases:
            open_claims.pop(0).claim.release()
        for key in ("b1", "b2", "r"):
            assert memory.of_keys[key] == sum(each.claim.declared_bytes for each in open_claims if each.caller.key_id == key)
        for team in ("blue", "red"):
            assert memory.held_of_teams[team] == sum(each.claim.size_bytes for each in open_claims if each.caller.team_id == team)
        assert memory.held_bytes == sum(each.claim.size_bytes for each in open_claims)
        assert all(each.claim.size_bytes <= each.claim.declared_bytes for each in open_claims)
