"""The amount of feedback that each team may have waiting, when all together have too much."""

from hypothesis import given
from hypothesis import strategies as st

from app.recording.writes.feedback_pending import share_of_each


def test_a_team_that_waits_for_little_keeps_all_of_it():
    assert share_of_each({}, 100, 1000) == 100
    assert share_of_each({"a": 500, "b": 3}, 100, 1000) == 100
    assert share_of_each({"a": 500, "b": 500, "c": 10}, 400, 410) == 200
    assert share_of_each({"a": 90, "b": 100}, 100, 100) == 50


@given(st.dictionaries(st.integers(), st.integers(1, 1000), max_size=20), st.integers(1, 500), st.integers(1, 2000))
def test_all_together_have_no_more_than_they_may_and_no_more_than_needed_is_given_up(waiting: dict[int, int], per_team: int, in_all: int):
    counts = {str(team): count for team, count in waiting.items()}
    share = share_of_each(counts, per_team, in_all)

    def left(share: int) -> int:
        return sum(min(count, share) for count in counts.values())

    assert 0 <= share <= per_team and left(share) <= in_all
    assert share == per_team or left(share + 1) > in_all
