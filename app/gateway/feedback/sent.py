"""Feedback that was sent before with the same id of its caller's (`id`, or Idempotency-Key): a retry is the same, anything else is refused.

Feedback is accepted without Postgres, so nothing is certain here: what another process has accepted and no writer has stored yet is not
seen, nor what is stored while Postgres is away. The writer sees it all, and keeps what differs as a conflict: see
app/recording/writes/feedback_writes.py.
"""

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

import msgspec
from sqlalchemy.ext.asyncio import AsyncEngine

from app.gateway.responses_state.lookup_slots import LookupSlots
from app.recording.spool.feedback_records import Feedback
from app.store.postgres.db_errors import DB_UNAVAILABLE_ERRORS
from app.store.records.feedback_repeats import NewFeedback, SentBefore, find_sent_before
from providers.canonical.errors import Conflict, RequestError

logger = logging.getLogger(__name__)

_REMEMBERED = 20_000
_LOOKUP_TIMEOUT_S = 0.5
_PAUSE_S = 5.0  # without look-ups, after one that failed
_SENT = {"metric": "metric", "target": "inference or episode", "value": "value", "tags": "tags"}


class FeedbackConflict(Conflict):
    """An id of feedback was used again for other feedback. `param` is the first field that differs."""

    def __init__(self, feedback: Feedback, first: SentBefore) -> None:
        differs = " and ".join(_SENT[each] for each in first.differs)
        super().__init__(
            f"The `id` (or Idempotency-Key) of this feedback stands for feedback that was sent before, {first.metric} on {first.level}"
            f" {first.target_id}. This differs in its {differs}. What was sent first stays: correct it by PUT"
            f" /v1/feedback/{feedback.feedback_id}, or send this with an id of its own.",
            param=f"{feedback.level}_id" if first.differs[0] == "target" else first.differs[0],
        )
        self.code = "idempotency_key_reused"
        self.details = {"feedback_id": feedback.feedback_id}


class Sent(msgspec.Struct, frozen=True):
    """The part of feedback that this process remembers. `value` and `tags` are hashes."""

    metric: str
    level: str
    target_id: str
    value: bytes
    tags: bytes

    @classmethod
    def of(cls, feedback: Feedback) -> "Sent":
        assert feedback.metric is not None and feedback.level is not None and feedback.target_id is not None, "it creates feedback"
        value = feedback.number if feedback.number is not None else feedback.value and msgspec.json.decode(feedback.value)
        return cls(feedback.metric, feedback.level, feedback.target_id, _hash(value), _hash(feedback.tags))

    def before(self, new: "Sent") -> SentBefore:
        """Returns this as what was sent before `new` with the same id, and the fields in which they differ."""
        differs = [
            *(["metric"] if new.metric != self.metric else ()),
            *(["target"] if (new.level, new.target_id) != (self.level, self.target_id) else ()),
            *(["value"] if new.value != self.value else ()),
            *(["tags"] if new.tags != self.tags else ()),
        ]
        return SentBefore(self.metric, self.level, self.target_id, differs)


class SentFeedback:
    """remember() what is sent, and forget() it if it is not accepted after all."""

    def __init__(self, database: AsyncEngine) -> None:
        self._database = database
        self._remembered: OrderedDict[tuple[str, str], Sent] = OrderedDict()
        self._slots = LookupSlots(1, 2)
        self._paused_until = 0.0

    async def remember(self, team_id: str, new: Sequence[tuple[Feedback, Sent]]) -> Mapping[str, FeedbackConflict]:
        """Remembers `new`, repeatable feedback of a team.

        Returns what differs from what was sent before, by the ids of events.
        """
        conflicts: dict[str, FeedbackConflict] = {}
        unknown: list[Feedback] = []
        for feedback, sent in new:
            known = self._remembered.setdefault((team_id, feedback.feedback_id), sent)
            if known is sent:
                unknown.append(feedback)
            elif (before := known.before(sent)).differs:
                conflicts[feedback.id] = FeedbackConflict(feedback, before)
        while len(self._remembered) > _REMEMBERED:
            self._remembered.popitem(last=False)
        stored = await self._find_stored(team_id, unknown)
        for feedback in unknown:
            if (before := stored.get(feedback.feedback_id)) is not None and before.differs:
                conflicts[feedback.id] = FeedbackConflict(feedback, before)
        self.forget(team_id, [feedback for feedback in unknown if feedback.id in conflicts])
        return conflicts

    def forget(self, team_id: str, feedback: Collection[Feedback]) -> None:
        for each in feedback:
            self._remembered.pop((team_id, each.feedback_id), None)

    async def _find_stored(self, team_id: str, feedback: Sequence[Feedback]) -> Mapping[str, SentBefore]:
        if not feedback or time.monotonic() < self._paused_until:
            return {}
        has_begun = False  # a team that waits for its own look-ups is no reason to leave out those of others
        try:
            async with asyncio.timeout(_LOOKUP_TIMEOUT_S), self._slots.slot(team_id):
                has_begun = True
                return await find_sent_before(self._database, team_id, [_new(each) for each in feedback], _LOOKUP_TIMEOUT_S)
        except (RequestError, *DB_UNAVAILABLE_ERRORS) as error:
            if has_begun:
                self._paused_until = time.monotonic() + _PAUSE_S
                logger.info("feedback is accepted without a look at what is stored: %s", type(error).__name__)
            return {}


def _new(feedback: Feedback) -> NewFeedback:
    assert feedback.metric is not None and feedback.level is not None and feedback.target_id is not None, "it creates feedback"
    return NewFeedback(
        *(feedback.feedback_id, feedback.metric, feedback.level, feedback.target_id, feedback.value, feedback.content),
        msgspec.json.encode(feedback.tags).decode() if feedback.tags else None,
    )


def _hash(value: object) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(value, order="sorted"), digest_size=16).digest()
