"""Feedback as callers send it, and what it must be for its metric. Pure: the inference or episode need not be recorded yet."""

import hashlib
import re
import time
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from app.domain import uuid7
from app.domain.callers import Caller
from app.domain.experiments import BUILT_IN_METRICS, MetricConfig
from app.gateway.feedback.invalid_feedback import InvalidFeedback
from app.gateway.feedback.target import read_target
from app.gateway.feedback.value import read_value
from app.gateway.state.episode_id import EpisodeIds
from app.process.decoding_errors import in_plain_words
from app.recording.spool.feedback_records import Feedback
from providers.canonical.errors import InvalidRequest
from providers.canonical.slow_numbers import SLOW_NUMBERS_ADVICE, has_slow_numbers
from providers.canonical.tags import check_tags

MAX_IDEMPOTENCY_KEY_CHARS = 255
_UNDATED_MS = 1_577_836_800_000  # 2020-01-01: the time in the id of repeatable feedback

_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)


class FeedbackBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Feedback on an inference or an episode. `metric_name` is TensorZero's word for `metric`; send one of them.

    `inference_id`: as a response has it, `resp_`, `msg_` or `cmpl-` before the UUID included. `episode_id`: a UUIDv7, or your own text.
    `value`: true or false, a number, a text, or of a demonstration also JSON. `id`: your own name for this feedback: sent again with it,
    it is stored once.
    """

    metric: str | None = None
    metric_name: str | None = None
    inference_id: str | None = None
    episode_id: str | None = None
    value: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    id: str | None = None
    tags: Mapping[str, str] = {}


_decode_body = msgspec.json.Decoder(FeedbackBody).decode


def parse_feedback(raw: bytes) -> FeedbackBody:
    """Raises InvalidFeedback, which names the field at fault."""
    if not raw.strip():
        raise _invalid_body("The body is empty: it must be a JSON object.")
    if has_slow_numbers(raw):
        raise too_many_slow_numbers()
    try:
        return _decode_body(raw)
    except msgspec.ValidationError as fault:
        problem, _, path = str(fault).partition(" - at `$.")
        if unknown := _UNKNOWN_FIELD.fullmatch(problem):
            fields = ", ".join(FeedbackBody.__struct_encode_fields__)
            raise _invalid_body(f"Unknown field `{unknown[1][:60]}`. The fields are: {fields}.", unknown[1][:60]) from None
        name = path.rstrip("`")[:60]
        raise _invalid_body(f"{in_plain_words(problem)}{f' at `{name}`' if name else ''}.", name or None) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise _invalid_body(f"The body is not JSON: {fault}.") from None
    except RecursionError:
        raise _invalid_body("The body is nested too deeply.") from None


def too_many_slow_numbers() -> InvalidFeedback:
    return _invalid_body(f"The body has too many numbers that take long to read: {SLOW_NUMBERS_ADVICE}")


def _invalid_body(message: str, param: str | None = None) -> InvalidFeedback:
    return InvalidFeedback(message, param=param, code="invalid_feedback")


def check_feedback(
    body: FeedbackBody,
    caller: Caller,
    metrics: Mapping[str, MetricConfig],
    episode_ids: EpisodeIds,
    *,
    header_key: str | None = None,
    line: int | None = None,
    corrects: str | None = None,
) -> Feedback:
    """The record of a request. Raises InvalidFeedback.

    `header_key` is its Idempotency-Key, `line` that of a batch, and `corrects` the feedback that it takes the place of.
    """
    received_us = time.time_ns() // 1000
    name, metric = _find_metric(body, metrics)
    target = read_target(body.inference_id, body.episode_id, name, metric, caller.team_id, episode_ids, received_us // 1000)
    value = read_value(body.value, name, metric)
    _check_tags(body.tags)
    if body.id is not None:
        if corrects is not None:
            raise InvalidFeedback("A correction names the feedback in its path, so it takes no `id`.", param="id")
        check_idempotency_key(body.id)
    key, line = (header_key, line) if body.id is None else (body.id, None)
    id = uuid7.mint(received_us)
    return Feedback(
        id=id,
        feedback_id=corrects or (id if key is None else _repeatable_id(caller, key, line)),
        action="create" if corrects is None else "correct",
        received_us=received_us,
        team_id=caller.team_id,
        key_id=caller.key_id,
        metric=name,
        kind=metric.kind,
        level=target.level,
        target_id=target.id,
        value=value,
        tags=body.tags,
        is_repeatable=key is not None,
    )


def withdrawal(feedback_id: str, caller: Caller) -> Feedback:
    received_us = time.time_ns() // 1000
    return Feedback(uuid7.mint(received_us), feedback_id, "withdraw", received_us, caller.team_id, caller.key_id)


def check_feedback_id(id: str) -> str:
    """Returns the id in lower case. Raises InvalidFeedback if it is no UUIDv7."""
    if not uuid7.is_uuid7(id):
        raise InvalidFeedback(
            f"The id of feedback is a UUIDv7, as POST /v1/feedback returned it; {id!r:.60} is not one.", param="id", code="invalid_id"
        )
    return id.lower()


def check_idempotency_key(key: str) -> None:
    """Raises InvalidFeedback."""
    if not 0 < len(key) <= MAX_IDEMPOTENCY_KEY_CHARS:
        raise InvalidFeedback(f"`id`, or the header Idempotency-Key, must have 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters.", param="id")


def _find_metric(body: FeedbackBody, metrics: Mapping[str, MetricConfig]) -> tuple[str, MetricConfig]:
    if body.metric is not None and body.metric_name is not None and body.metric != body.metric_name:
        raise InvalidFeedback("`metric` and `metric_name` are the same field, and name two metrics: send one of them.", param="metric_name")
    name = body.metric if body.metric is not None else body.metric_name
    if name is None:
        raise InvalidFeedback(f"`metric` is required. {_known(metrics)}", param="metric")
    metric = metrics.get(name) or BUILT_IN_METRICS.get(name)
    if metric is None:
        raise InvalidFeedback(f"There is no metric {name!r:.100}. {_known(metrics)}", param="metric", code="unknown_metric")
    return name, metric


def _known(metrics: Mapping[str, MetricConfig]) -> str:
    names = sorted({*metrics, *BUILT_IN_METRICS})
    more = f" and {len(names) - 50} more" if len(names) > 50 else ""
    return f"The metrics are: {', '.join(names[:50])}{more}."


def _check_tags(tags: Mapping[str, str]) -> None:
    try:
        check_tags(tags)
    except InvalidRequest as fault:
        raise InvalidFeedback(fault.message.replace("tags (or metadata)", "tags"), param="tags") from None
    if any("\0" in text for tag in tags.items() for text in tag):
        raise InvalidFeedback("`tags` hold a NUL character, which cannot be stored.", param="tags")


def _repeatable_id(caller: Caller, key: str, line: int | None) -> str:
    """The same for each repetition, on every worker, with no look-up: a UUIDv7 with a hash in place of chance.

    Of nothing but the key, so that other feedback with the same one is found.
    """
    repeated = msgspec.msgpack.encode((caller.team_id, caller.key_id, key, line))
    digest = hashlib.blake2b(repeated, digest_size=16, person=b"feedback").digest()
    high = _UNDATED_MS << 16 | 0x7000 | int.from_bytes(digest[:2]) & 0x0FFF
    low = 0x8000_0000_0000_0000 | int.from_bytes(digest[8:]) & 0x3FFF_FFFF_FFFF_FFFF
    digits = f"{high:016x}{low:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
