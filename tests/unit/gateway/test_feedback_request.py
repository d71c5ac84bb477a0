"""Feedback as callers send it: what it may be for its metric, and errors that say what the metric is."""

import time
from typing import Any

import msgspec
import pytest

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.experiments import MetricConfig
from app.gateway.feedback.invalid_feedback import InvalidFeedback
from app.gateway.feedback.request import FeedbackBody, check_feedback, check_feedback_id
from app.gateway.feedback.value import MAX_COMMENT_CHARS, MAX_DEMONSTRATION_BYTES, MAX_DEMONSTRATION_LEVELS
from app.gateway.state.episode_id import EpisodeIds
from app.recording.spool.feedback_records import Feedback, decode_feedback, encode_feedback, feedback_row
from app.recording.writes.feedback_writes import FEEDBACK_COLUMNS

TEAM, KEY = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
CALLER = Caller(KEY, TEAM, "team", "full")
EPISODES = EpisodeIds(["secret"])
METRICS = {
    "helpful": MetricConfig("boolean", "inference", "max"),
    "score": MetricConfig("float", "episode"),
    "remark": MetricConfig("comment", "episode"),
    "better": MetricConfig("demonstration", "inference"),
}


def check(
    caller: Caller = CALLER, *, header_key: str | None = None, line: int | None = None, corrects: str | None = None, **body: Any
) -> Feedback:
    parsed = msgspec.json.decode(msgspec.json.encode(body), type=FeedbackBody)
    feedback = check_feedback(parsed, caller, METRICS, EPISODES, header_key=header_key, line=line, corrects=corrects)
    assert decode_feedback(encode_feedback(feedback)) == feedback  # what is accepted can be stored
    return feedback


def nested(levels: int, value: Any = 1) -> Any:
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.mark.parametrize("prefix", ["", "resp_", "msg_", "cmpl-", "chatcmpl-"])
def test_ids_are_taken_as_each_api_returns_them(prefix: str):
    id = uuid7.mint()
    feedback = check(metric="helpful", inference_id=prefix + id.upper() if not prefix else prefix + id, value=True)
    assert (feedback.target_id, feedback.level, feedback.value, feedback.number) == (id, "inference", "true", 1.0)
    assert feedback.feedback_id == feedback.id and uuid7.is_uuid7(feedback.id)


def test_an_episode_has_the_id_that_its_requests_have():
    named = check(metric="score", episode_id="ticket-4711", value=0.5)
    assert named.target_id == EPISODES.read("ticket-4711", TEAM, time.time() * 1000).id
    assert check(metric="comment", episode_id=(id := uuid7.mint()), value="Good").target_id == id
    assert check(metric="comment", inference_id=id, value="Good").level == "inference"


def test_tensorzeros_name_of_the_field_is_taken():
    assert check(metric_name="helpful", inference_id=uuid7.mint(), value=False).metric == "helpful"
    with pytest.raises(InvalidFeedback, match="name two metrics"):
        check(metric="helpful", metric_name="score", inference_id=uuid7.mint(), value=False)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        *(("score", each) for each in (0, -1, 1.5, 10**30)),
        ("comment", 'She said "\\u0000", and meant it 🙂'),
        ("comment", "x" * MAX_COMMENT_CHARS),
        *(("demonstration", each) for each in ("text", {"a": [1, None]}, [{"type": "text", "text": "Hello"}])),
        ("demonstration", nested(MAX_DEMONSTRATION_LEVELS)),
    ],
)
def test_valid_values_are_kept_as_they_are(metric: str, value: Any):
    target: Any = {"episode_id": uuid7.mint()} if metric == "score" else {"inference_id": uuid7.mint()}
    feedback = check(metric=metric, value=value, **target)
    assert feedback.value is not None and msgspec.json.decode(feedback.value) == value
    assert feedback.number == (float(value) if metric == "score" else None)


LEVEL, VALUE, ID, OTHER = "wrong_level", "wrong_value", "invalid_id", "invalid_feedback"


@pytest.mark.parametrize(
    ("body", "code", "param", "says"),
    [
        ({}, OTHER, "metric", "`metric` is required. The metrics are: better, comment, demonstration, helpful, remark, score."),
        ({"metric": "useful"}, "unknown_metric", "metric", "There is no metric 'useful'. The metrics are: better, comment"),
        ({"metric": "helpful"}, OTHER, "inference_id", "`inference_id` is required. helpful is a boolean of an inference."),
        ({"metric": "comment"}, OTHER, "inference_id", "`inference_id` or `episode_id` is required. comment is a comment of an"),
        ({"metric": "helpful", "episode_id": 1}, LEVEL, "episode_id", "helpful is a boolean of an inference: send `inference_id`."),
        ({"metric": "score", "inference_id": 1}, LEVEL, "inference_id", "score is a float of an episode: send `episode_id`."),
        ({"metric": "score", "inference_id": 1, "episode_id": 1}, LEVEL, "inference_id", "exclude each other. score is a float of an"),
        ({"metric": "helpful", "inference_id": "x"}, ID, "inference_id", "'x' is not one"),
        ({"metric": "helpful", "inference_id": "resp_019aa3f4"}, ID, "inference_id", "'resp_019aa3f4' is not one"),
        ({"metric": "helpful", "inference_id": 2}, ID, "inference_id", "lies in the future"),
        ({"metric": "score", "episode_id": 2}, ID, "episode_id", "lies in the future"),
        ({"metric": "score", "episode_id": "x" * 129}, ID, "episode_id", "at most 128"),
        ({"metric": "helpful", "inference_id": 1, "value": ...}, VALUE, "value", "is required. helpful is a boolean: its value is true"),
        ({"metric": "helpful", "inference_id": 1, "value": 1}, VALUE, "value", "its value is true or false. It was a number."),
        ({"metric": "helpful", "inference_id": 1, "value": None}, VALUE, "value", "true or false. It was null."),
        ({"metric": "helpful", "inference_id": 1, "value": "true"}, VALUE, "value", "It was a text of 4 characters."),
        ({"metric": "score", "episode_id": 1, "value": True}, VALUE, "value", "its value is a finite number. It was true."),
        ({"metric": "score", "episode_id": 1, "value": 10**400}, VALUE, "value", "a finite number"),
        ({"metric": "comment", "inference_id": 1, "value": ""}, VALUE, "value", "a text of 1 to 16384 characters. It was a text of 0"),
        ({"metric": "comment", "inference_id": 1, "value": "x" * (MAX_COMMENT_CHARS + 1)}, VALUE, "value", "a text of 16385 char"),
        ({"metric": "comment", "inference_id": 1, "value": "\0"}, VALUE, "value", "NUL"),
        ({"metric": "demonstration", "inference_id": 1, "value": {"\0": 1}}, VALUE, "value", "NUL"),
        ({"metric": "demonstration", "inference_id": 1, "value": {}}, VALUE, "value", "not empty"),
        ({"metric": "demonstration", "inference_id": 1, "value": nested(101)}, VALUE, "value", "within each other 100 times"),
        ({"metric": "demonstration", "inference_id": 1, "value": nested(600, "\0")}, VALUE, "value", "within each other 100 times"),
        ({"metric": "better", "inference_id": 1, "value": "x" * MAX_DEMONSTRATION_BYTES}, VALUE, "value", "at most 256 KiB"),
        ({"metric": "helpful", "inference_id": 1, "tags": {"x": "y" * 513}}, OTHER, "tags", "At most 64 tags"),
        ({"metric": "helpful", "inference_id": 1, "tags": {str(at): "" for at in range(65)}}, OTHER, "tags", "At most 64"),
        ({"metric": "helpful", "inference_id": 1, "tags": {"x": "\0"}}, OTHER, "tags", "NUL"),
        ({"metric": "helpful", "inference_id": 1, "id": ""}, OTHER, "id", "1 to 255 characters"),
        ({"metric": "helpful", "inference_id": 1, "id": "x" * 256}, OTHER, "id", "1 to 255 characters"),
    ],
    ids=str,
)
def test_errors_name_what_would_be_right(body: dict[str, Any], code: str, param: str, says: str):
    ids = {1: uuid7.mint(), 2: uuid7.mint(time.time_ns() // 1000 + 120_000_000)}
    sent: Any = {
        name: ids.get(value, value) if name.endswith("_id") else value
        for name, value in {"value": True, **body}.items()
        if value is not ...
    }
    with pytest.raises(InvalidFeedback) as refused:
        check(**sent)
    assert (refused.value.code, refused.value.param) == (code, param)
    assert says in refused.value.message


def test_repetitions_have_the_same_id_and_others_do_not():
    id, episode = uuid7.mint(), "conversation 7"

    def helpful(caller: Caller = CALLER, **changes: Any) -> str:
        body: Any = {"metric": "helpful", "inference_id": id, "value": True, **changes}
        return check(caller, **body).feedback_id

    first = helpful(id="k")
    assert helpful(id="k") == helpful(header_key="k") == helpful(id="k", value=False) == first
    assert uuid7.is_uuid7(first)
    other_key, other_team = (msgspec.structs.replace(CALLER, **{name: TEAM.replace("1", "3")}) for name in ("key_id", "team_id"))
    others = [
        *(helpful(id="l"), helpful(other_key, id="k"), helpful(other_team, id="k"), helpful(), helpful()),
        *(helpful(header_key="k", line=1), helpful(header_key="k", line=2)),
    ]
    assert len({first, *others}) == 1 + len(others) and all(map(uuid7.is_uuid7, others))
    # Whatever it says, so that other feedback with the same id is found.
    assert first == helpful(id="k", inference_id=uuid7.mint()) == check(metric="score", episode_id=episode, value=1, id="k").feedback_id
    assert first == helpful(id="k", header_key="other", line=3)


def test_a_correction_keeps_the_id_and_says_everything_again():
    id = uuid7.mint()
    corrected = check(metric="helpful", inference_id=uuid7.mint(), value=False, corrects=id)
    assert (corrected.feedback_id, corrected.action, corrected.is_repeatable) == (id, "correct", False) and corrected.id != id
    with pytest.raises(InvalidFeedback, match="takes no `id`"):
        check(metric="helpful", inference_id=uuid7.mint(), value=False, corrects=id, id="k")
    assert check_feedback_id(id.upper()) == id
    with pytest.raises(InvalidFeedback, match="is not one"):
        check_feedback_id("fb_1")


def test_a_record_of_an_older_version_is_read():
    feedback = check(metric="helpful", inference_id=uuid7.mint(), value=True)
    older = msgspec.msgpack.encode(msgspec.msgpack.decode(encode_feedback(feedback))[: Feedback.__struct_fields__.index("content")])
    assert decode_feedback(older) == feedback
    newer = msgspec.msgpack.encode([*msgspec.msgpack.decode(encode_feedback(feedback)), "something new"])
    assert decode_feedback(newer) == feedback
    row = dict(zip(FEEDBACK_COLUMNS, feedback_row(feedback), strict=True))
    assert (row["number"], row["value"], row["tags"], row["received_at"].timestamp()) == (1.0, "true", None, feedback.received_us / 1e6)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "x"},
        {"feedback_id": "x"},
        {"team_id": "nobody"},
        {"target_id": None},
        {"metric": None},
        {"action": "withdraw"},
        {"metric": "a\0"},
        {"tags": {"a": "\0"}},
        {"value": '"\\u0000"'},
        {"value": "{"},
    ],
    ids=str,
)
def test_what_postgres_would_not_take_is_no_record(changes: dict[str, Any]):
    feedback = msgspec.structs.replace(check(metric="helpful", inference_id=uuid7.mint(), value=True), **changes)
    with pytest.raises((ValueError, msgspec.DecodeError)):
        decode_feedback(encode_feedback(feedback))
