"""UUIDv7: ids follow the RFC, carry their creation time, and sort by it."""

import time
import uuid

from hypothesis import given
from hypothesis import strategies as st

from app.domain.uuid7 import created_ms, is_uuid7, lowest_at, mint
from tests.support.strategies.chat_strategies import bounded

# Up to the year 10889: 48 bits of milliseconds.
moments_us = st.integers(0, (2**48 - 1) * 1000 + 999)


@bounded
@given(moments_us)
def test_minted_id_is_a_uuid_of_version_7_and_the_rfc_variant(at_us: int) -> None:
    id = mint(at_us)
    assert uuid.UUID(id).version == 7
    assert uuid.UUID(id).variant == uuid.RFC_4122
    assert str(uuid.UUID(id)) == id
    assert is_uuid7(id)
    assert is_uuid7(id.upper())


@bounded
@given(moments_us)
def test_id_carries_its_creation_time(at_us: int) -> None:
    assert created_ms(mint(at_us)) == created_ms(mint(at_us).upper()) == at_us // 1000


@bounded
@given(moments_us, moments_us)
def test_ids_sort_by_creation_time(one_us: int, other_us: int) -> None:
    # The fraction of a millisecond is kept in twelve bits, finer than a microsecond.
    if one_us != other_us:
        assert (mint(one_us) < mint(other_us)) == (one_us < other_us)


@bounded
@given(moments_us)
def test_first_id_of_a_millisecond_sorts_between_earlier_and_later_ids(at_us: int) -> None:
    bound = lowest_at(at_us // 1000)
    assert is_uuid7(bound)
    assert created_ms(bound) == at_us // 1000
    assert bound <= mint(at_us)
    if at_us >= 1000:
        assert mint(at_us - 1000) < bound


def test_bound_before_1970_is_the_smallest_id() -> None:
    assert lowest_at(-5) == lowest_at(0)


def test_minted_ids_are_unique_and_carry_the_current_time() -> None:
    before = time.time_ns() // 1_000_000
    ids = [mint() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert all(before <= created_ms(id) <= time.time_ns() // 1_000_000 for id in ids)
    assert len({mint(0) for _ in range(2000)}) == 2000


@bounded
@given(st.one_of(st.text(max_size=40), st.uuids(version=4).map(str), st.uuids(version=5).map(str)))
def test_other_text_and_other_uuid_versions_are_not_uuid7(text: str) -> None:
    assert not is_uuid7(text)
