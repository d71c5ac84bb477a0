"""The intake of feedback: what is kept of it by the team's content policy, how much a team may send, and the spool.

It is as durable as an inference when it is accepted, and needs neither Postgres nor Redis for that.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from app.domain.callers import Caller, MaskConfig
from app.gateway.feedback.rate import MAX_AT_ONCE, FeedbackRate, counted
from app.gateway.feedback.request import FeedbackBody, check_feedback, withdrawal
from app.gateway.feedback.sent import FeedbackConflict, Sent, SentFeedback
from app.gateway.large_body.large_requests import LargeRequests
from app.gateway.state.episode_id import EpisodeIds
from app.process.telemetry import Telemetry
from app.recording.content.masking import compile_rules, rewrite_content
from app.recording.spool.feedback_records import Feedback, encode_feedback
from app.recording.spool.spool import Spool
from app.settings import Settings
from app.store.configuration.snapshot_cache import SnapshotCache
from providers.canonical.errors import Unavailable

__all__ = ["MAX_AT_ONCE", "FeedbackIntake"]

_TEXT_KINDS = ("comment", "demonstration")


class FeedbackIntake:
    """check() what a caller sends, then store() it: once that returns, it is not lost."""

    def __init__(
        self,
        settings: Settings,
        snapshot_cache: SnapshotCache,
        spool: Spool,
        episode_ids: EpisodeIds,
        large_requests: LargeRequests,
        telemetry: Telemetry,
        sent_feedback: SentFeedback,
    ) -> None:
        self._snapshot_cache = snapshot_cache
        self._spool = spool
        self._episode_ids = episode_ids
        self._large_requests = large_requests
        self._telemetry = telemetry
        self._sent_feedback = sent_feedback
        self._rate = FeedbackRate(settings.feedback_per_second)

    def check(
        self, caller: Caller, body: FeedbackBody, *, header_key: str | None = None, line: int | None = None, corrects: str | None = None
    ) -> Feedback:
        """Checks a body. Raises InvalidFeedback.

        `header_key` is the request's Idempotency-Key, `line` that of a batch, and `corrects` what it replaces.
        """
        metrics = self._snapshot_cache.snapshot.metrics
        return check_feedback(body, caller, metrics, self._episode_ids, header_key=header_key, line=line, corrects=corrects)

    async def withdraw(self, caller: Caller, feedback_id: str) -> None:
        await self.store(caller, [withdrawal(feedback_id, caller)])

    async def store(self, caller: Caller, feedback: Sequence[Feedback]) -> Mapping[str, FeedbackConflict]:
        """All of it, or nothing; at most MAX_AT_ONCE. Returns what is not stored, as its id stands for other feedback, by ids of events.

        Raises LimitExceeded, and Unavailable if there is no space.
        """
        conflicts: Mapping[str, FeedbackConflict] = {}
        if not feedback:
            return conflicts
        sizes = [len(each.value or "") for each in feedback]
        size_bytes = sum(sizes)
        self._rate.take(caller.team_id, sum(map(counted, sizes)))
        accepted = await self._large_requests.of_team(caller.team_id).run_if_large(size_bytes, _accept_all, caller, feedback)
        repeatable = [(each.kept, each.sent) for each in accepted if each.sent is not None]
        if repeatable:
            conflicts = await self._sent_feedback.remember(caller.team_id, repeatable)
        stored = [each for each in accepted if each.kept.id not in conflicts]
        if stored and not self._spool.append_feedback([each.body for each in stored]):
            self._sent_feedback.forget(caller.team_id, [kept for kept, _ in repeatable])
            raise Unavailable("This gateway cannot record feedback at the moment: its spool is full. Try again later.", retry_after_s=5)
        await self._spool.wait_until_durable()
        for each in stored:
            self._telemetry.count_feedback(each.kept.metric or "", each.kept.action)
        return conflicts


class _Accepted(NamedTuple):
    """Feedback as it is kept, as a record of the spool, and what is remembered of it if it may be repeated."""

    kept: Feedback
    body: bytes
    sent: Sent | None


def _accept_all(caller: Caller, feedback: Sequence[Feedback]) -> list[_Accepted]:
    kept = [_keep(caller, each) for each in feedback]
    return [
        _Accepted(each, encode_feedback(each), Sent.of(received) if received.is_repeatable else None)
        for each, received in zip(kept, feedback, strict=True)
    ]


def _keep(caller: Caller, feedback: Feedback) -> Feedback:
    """Returns what the team's content policy keeps of the feedback. Tags and numbers are no content."""
    if feedback.kind not in _TEXT_KINDS or feedback.value is None or caller.content == "full":
        return feedback
    if caller.content == "masked":
        return replace(feedback, value=_mask(feedback.value, caller.mask), content="masked")
    return replace(feedback, value=None, content=caller.content)


def _mask(value: str, config: MaskConfig) -> str:
    return msgspec.json.encode(rewrite_content(msgspec.json.decode(value), compile_rules(config))).decode()
