"""The inference or episode that feedback is about, at the level of its metric."""

import re
from collections.abc import Iterable

from msgspec import Struct

from app.domain import uuid7
from app.domain.experiments import BUILT_IN_METRICS, MetricConfig, MetricLevel
from app.gateway.feedback.invalid_feedback import InvalidFeedback
from app.gateway.state.episode_id import EpisodeIds
from providers.canonical.errors import InvalidRequest

_CLOCK_SKEW_MS = 60_000
# Before the UUID in the ids of inferences that other APIs than chat return. Nobody returns `chatcmpl-`: clients are used to it.
_ID_PREFIXES = re.compile(r"(?:chatcmpl-|cmpl-|resp_|msg_)?(.*)", re.DOTALL)
_LEVELS_OF_COMMENT: tuple[MetricLevel, ...] = ("inference", "episode")  # of the one that is built in


class Target(Struct, frozen=True):
    """The inference or episode that feedback is about."""

    level: MetricLevel
    id: str


def read_target(
    inference_id: str | None,
    episode_id: str | None,
    name: str,
    metric: MetricConfig,
    team_id: str,
    episode_ids: EpisodeIds,
    now_ms: int,
) -> Target:
    """Raises InvalidFeedback unless there is one id, of the metric's level, and it is valid."""
    levels = _LEVELS_OF_COMMENT if metric is BUILT_IN_METRICS["comment"] else (metric.level,)
    fields = {"inference": inference_id, "episode": episode_id}
    sent = [level for level, id in fields.items() if id is not None]
    expected = " or ".join(f"`{level}_id`" for level in levels)
    if len(sent) == 2:
        raise InvalidFeedback(
            f"`inference_id` and `episode_id` exclude each other. {_describe(name, metric, levels)}: send {expected}.",
            param="episode_id" if levels == ("inference",) else "inference_id",
            code="wrong_level",
        )
    if not sent:
        raise InvalidFeedback(f"{expected} is required. {_describe(name, metric, levels)}.", param=f"{levels[0]}_id")
    if sent[0] not in levels:
        raise InvalidFeedback(f"{_describe(name, metric, levels)}: send {expected}.", param=f"{sent[0]}_id", code="wrong_level")
    if inference_id is not None:
        return Target("inference", _read_inference_id(inference_id, now_ms))
    assert episode_id is not None
    try:
        return Target("episode", episode_ids.read(episode_id, team_id, now_ms).id)
    except InvalidRequest as fault:
        raise InvalidFeedback(fault.message, param="episode_id", code="invalid_id") from None


def _describe(name: str, metric: MetricConfig, levels: Iterable[MetricLevel]) -> str:
    """Returns what a metric is, as the beginning of a sentence."""
    return f"{name} is a {metric.kind} of an {' or an '.join(levels)}"


def _read_inference_id(text: str, now_ms: int) -> str:
    match = _ID_PREFIXES.fullmatch(text)
    id = match[1] if match is not None else text
    if not uuid7.is_uuid7(id):
        raise InvalidFeedback(
            "`inference_id` must be the id of a response, or its header x-narthex-inference-id: a UUIDv7, perhaps after `resp_`, `msg_` or"
            f" `cmpl-`; {text!r:.60} is not one.",
            param="inference_id",
            code="invalid_id",
        )
    if uuid7.created_ms(id) > now_ms + _CLOCK_SKEW_MS:
        raise InvalidFeedback(
            "`inference_id` lies in the future: it was created more than a minute from now.", param="inference_id", code="invalid_id"
        )
    return id.lower()
