"""Ids of episodes: minted ones are recognised and forged ones are not, and a text of the caller's is always the same id of its team."""

import time
import uuid
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import uuid7
from app.gateway.state.episode_id import Episode, EpisodeIds
from providers.canonical.errors import InvalidRequest
from tests.support.strategies.chat_strategies import bounded

TEAM, OTHER_TEAM = "01990000-0000-7000-8000-00000000000a", "01990000-0000-7000-8000-00000000000b"
IDS = EpisodeIds(["a secret key"])
moments_us = st.integers(0, (2**48 - 1) * 1000 + 999)
LATE_MS = 2.0**48
UUID_OF_VERSION_1 = "161a76f8-eb13-11f1-ba7e-02fc00000001"
UUID_OF_VERSION_4 = "0cecc9f3-d82b-42c1-809e-041d8e4e890a"
UUID_OF_VERSION_7 = "01a2219c-f17d-792b-a680-7049833ac6d8"

# No control characters, and no lone halves of a surrogate pair, which no request can hold.
names = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=128).filter(
    lambda text: text == text.strip() and not uuid7.is_uuid7(text)
)


def now_ms() -> float:
    return time.time() * 1000


@bounded
@given(moments_us)
def test_minted_id_is_a_uuid7_of_its_time_and_is_recognised(at_us: int) -> None:
    minted = IDS.mint(TEAM, at_us)
    assert (uuid.UUID(minted.id).version, uuid.UUID(minted.id).variant, str(uuid.UUID(minted.id))) == (7, uuid.RFC_4122, minted.id)
    assert (minted.kind, minted.born_ms, minted.name) == ("minted", at_us // 1000, None)
    assert IDS.read(minted.id, TEAM, LATE_MS) == IDS.read(minted.id.upper(), TEAM, LATE_MS) == minted
    assert EpisodeIds(["a secret key"]).read(minted.id, TEAM, LATE_MS) == minted


def test_minted_ids_are_unique() -> None:
    # Of one microsecond. A pair is equal once in 2**38, so these are never.
    assert len({IDS.mint(TEAM, 1_700_000_000_000_000).id for _ in range(500)}) == 500


@bounded
@given(moments_us)
def test_uuid7_that_was_not_minted_is_the_callers(at_us: int) -> None:
    id = uuid7.mint(at_us)
    assert IDS.read(id, TEAM, LATE_MS) == Episode(id, "caller_uuid7")


@bounded
@given(moments_us, st.integers(0, 127))
def test_minted_id_with_one_bit_changed_is_no_minted_one(at_us: int, bit: int) -> None:
    forged = str(uuid.UUID(int=uuid.UUID(IDS.mint(TEAM, at_us).id).int ^ 1 << bit))
    assert IDS.read(forged, TEAM, LATE_MS).kind != "minted"


def test_minted_id_of_another_team_or_another_key_is_the_callers() -> None:
    minted = IDS.mint(TEAM)
    assert IDS.read(minted.id, OTHER_TEAM, LATE_MS).kind == "caller_uuid7"
    assert EpisodeIds(["another key"]).read(minted.id, TEAM, LATE_MS).kind == "caller_uuid7"
    assert EpisodeIds([]).read(minted.id, TEAM, LATE_MS).kind == "caller_uuid7"


def test_minted_ids_stay_recognised_while_their_key_is_kept() -> None:
    rotated = EpisodeIds(["a new key", "a secret key"])
    assert rotated.read(IDS.mint(TEAM).id, TEAM, LATE_MS).kind == "minted"
    assert IDS.read(rotated.mint(TEAM).id, TEAM, LATE_MS).kind == "caller_uuid7"
    assert EpisodeIds(["a new key"]).read(rotated.mint(TEAM).id, TEAM, LATE_MS).kind == "minted"


def test_last_bytes_of_minted_ids_are_uniform() -> None:
    counts = Counter(uuid.UUID(IDS.mint(TEAM, number * 1000).id).bytes[-1] for number in range(25_600))
    chi_square = sum((counts[byte] - 100) ** 2 / 100 for byte in range(256))
    assert chi_square < 370  # 255 degrees of freedom: five standard deviations


@bounded
@given(st.integers(0, 2**47), st.integers(60_001, 10**12))
def test_uuid7_from_the_future_is_refused(at_ms: int, ahead_ms: int) -> None:
    with pytest.raises(InvalidRequest, match="future") as refused:
        IDS.read(uuid7.mint((at_ms + ahead_ms) * 1000), TEAM, at_ms)
    assert refused.value.param == "episode_id"


@bounded
@given(st.integers(0, 2**47), st.integers(-(10**12), 60_000))
def test_uuid7_of_at_most_a_minute_ahead_is_accepted(at_ms: int, ahead_ms: int) -> None:
    id = uuid7.mint(max(0, at_ms + ahead_ms) * 1000)
    assert IDS.read(id.upper(), TEAM, at_ms).id == id


@bounded
@given(names)
def test_text_is_a_stable_uuid8_of_the_team(name: str) -> None:
    episode = IDS.read(name, TEAM, now_ms())
    assert (uuid.UUID(episode.id).version, uuid.UUID(episode.id).variant, str(uuid.UUID(episode.id))) == (8, uuid.RFC_4122, episode.id)
    assert (episode.kind, episode.name, episode.born_ms) == ("text", name, None)
    assert EpisodeIds(["another key"]).read(name, TEAM, now_ms()) == episode
    assert IDS.read(name, OTHER_TEAM, now_ms()).id != episode.id


@bounded
@given(names)
def test_uuid_of_a_text_means_the_same_episode_to_its_team_alone(name: str) -> None:
    episode = IDS.read(name, TEAM, now_ms())
    assert IDS.read(episode.id, TEAM, now_ms()) == IDS.read(episode.id.upper(), TEAM, now_ms()) == Episode(episode.id, "text")
    # To another team it is a text like any other.
    assert IDS.read(episode.id, OTHER_TEAM, now_ms()).id not in (episode.id, IDS.read(name, OTHER_TEAM, now_ms()).id)


@bounded
@given(names, names)
def test_two_texts_are_two_episodes(one: str, other: str) -> None:
    assert (IDS.read(one, TEAM, now_ms()).id == IDS.read(other, TEAM, now_ms()).id) == (one == other)


def test_uuid_of_a_text_never_changes() -> None:
    # Recorded episodes and running conversations have these ids.
    assert IDS.read("ticket-4711", TEAM, now_ms()).id == "96d89e53-c0eb-8b6d-a04e-2774b38231a1"
    assert IDS.read("Gespräch 7", OTHER_TEAM, now_ms()).id == "0aff5b78-dfd1-875b-9923-a7b8e0f0ceff"


@pytest.mark.parametrize(
    "text", [UUID_OF_VERSION_4, UUID_OF_VERSION_1, UUID_OF_VERSION_7[:-1], "0" * 32, "a/b?c", "1" * 128, "é" * 128, "😀"]
)
def test_any_other_text_is_a_name(text: str) -> None:
    assert IDS.read(text, TEAM, now_ms()).name == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("x" * 129, "has 129 characters, and at most 128"),
        ("a\nb", r"character 2 is a control character \(U\+000A\)"),
        ("\x7f", r"U\+007F"),
        ("a\x85", r"U\+0085"),
        ("\0", r"U\+0000"),
        (UUID_OF_VERSION_7 + "\n", r"character 37 is a control character"),
        (" a", "begins or ends with a space"),
        ("a\u3000", "begins or ends with a space"),
        (" ", "begins or ends with a space"),
    ],
)
def test_text_that_cannot_name_an_episode_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequest, match=f"must be a UUIDv7.*{problem}") as refused:
        IDS.read(text, TEAM, now_ms())
    assert refused.value.param == "episode_id"
