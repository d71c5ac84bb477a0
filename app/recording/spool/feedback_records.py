"""Feedback as it is written to the spool: what a caller said of an inference or an episode, one record for each event."""

import datetime
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Literal, cast
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from app.domain.experiments import MetricKind, MetricLevel
from app.recording.writes.feedback_writes import FEEDBACK_COLUMNS
from app.store.postgres.locks import ERASED
from app.store.postgres.partitions import day_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MAX_US = 2**53

# create: new feedback. correct: other feedback in its place. withdraw: it no longer counts.
FeedbackAction = Literal["create", "correct", "withdraw"]
# What is kept of a comment or a demonstration. erased: nothing any more.
KeptText = Literal["full", "masked", "redacted", "none", "erased"]


class Feedback(Struct, frozen=True, array_like=True):
    """One event. Fields are only ever appended, with defaults: records written by an older version must still
    be read.

    If `metric`, `kind`, `level` and `target_id` are None, it withdraws a feedback, whatever that says.
    """

    id: str  # of the event, a UUIDv7 of when it was received
    feedback_id: str  # of the feedback, as its caller knows it
    action: FeedbackAction
    received_us: Annotated[int, Meta(ge=0, le=_MAX_US)]
    team_id: str
    key_id: str
    metric: str | None = None
    kind: MetricKind | None = None
    level: MetricLevel | None = None
    target_id: str | None = None  # of an inference or episode, by `level`
    value: str | None = None  # as JSON; None if nothing of it may be kept, or it withdraws
    content: KeptText = "full"
    tags: Mapping[str, str] = {}
    is_repeatable: bool = False  # a `create` with the same `feedback_id` is the same one

    @property
    def number(self) -> float | None:
        """The value of a boolean (0 or 1) or a float, or None if there is none."""
        if self.value is None or self.kind not in ("boolean", "float"):
            return None
        return float(msgspec.json.decode(self.value))


encode_feedback = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Feedback).decode


def decode_feedback(body: bytes) -> Feedback:
    """Raises msgspec.DecodeError or ValueError for what Postgres would not take."""
    feedback = _decode(body)
    day_of(feedback.id)
    for id in (feedback.id, feedback.feedback_id, feedback.team_id, feedback.key_id, feedback.target_id):
        if id is not None and str(UUID(id)) != id:
            raise ValueError(f"{id!r:.60} is not a UUID as it is written")
    is_withdrawal = feedback.action == "withdraw"
    if any((part is None) is not is_withdrawal for part in (feedback.metric, feedback.kind, feedback.level, feedback.target_id)):
        raise ValueError("it has neither all nor nothing of what feedback is about")
    value = None if feedback.value is None else msgspec.json.decode(feedback.value)
    if has_nul([feedback.metric, feedback.tags, value]):
        raise ValueError("a text holds NUL")
    return feedback


def has_nul(value: Any) -> bool:
    """Returns whether any text within a JSON value holds NUL, which Postgres does not store."""
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(has_nul(each) for pair in cast("dict[str, Any]", value).items() for each in pair)
        case list():
            return any(has_nul(each) for each in cast("list[Any]", value))
        case _:
            return False


def erase_feedback(feedback: Feedback, keep_tags: Collection[str], *, erase_episode: bool) -> Feedback:
    """Returns what an erasure leaves of feedback: a number, and what it is about.

    With `erase_episode` feedback on an episode becomes feedback on an episode that nobody has.
    """
    tags = {name: value if name in keep_tags else ERASED for name, value in feedback.tags.items()}
    erased = msgspec.structs.replace(feedback, tags=tags)
    if feedback.number is None:
        erased = msgspec.structs.replace(erased, value=None, content="erased")
    return msgspec.structs.replace(erased, target_id=feedback.id) if erase_episode and feedback.level == "episode" else erased


def feedback_row(feedback: Feedback, erased_at: datetime.datetime | None = None) -> tuple[Any, ...]:
    """The row of an event, in the order of FEEDBACK_COLUMNS."""
    return tuple(erased_at if name == "erased_at" else _to_column(feedback, name) for name in FEEDBACK_COLUMNS)


def _to_column(feedback: Feedback, name: str) -> Any:
    match name:
        case "received_at":
            return _EPOCH + datetime.timedelta(microseconds=feedback.received_us)
        case "tags":
            return msgspec.json.encode(feedback.tags).decode() if feedback.tags else None
        case _:
            return getattr(feedback, name)
