"""Feedback as a gateway process writes it to its spool."""

import time
import uuid
from typing import Any

import msgspec

from app.domain import uuid7
from app.recording.spool.feedback_records import Feedback, encode_feedback
from app.recording.spool.spool import Spool

TEAM, KEY = str(uuid.UUID(int=100)), str(uuid.UUID(int=200))


def make_feedback(target_id: str, value: Any = True, **changes: Any) -> Feedback:
    """A boolean of an inference, unless `changes` say otherwise."""
    at_us = changes.pop("received_us", time.time_ns() // 1000)
    id = uuid7.mint(at_us)
    made = Feedback(
        *(id, id, "create", at_us, TEAM, KEY, "helpful", "boolean", "inference", target_id),
        msgspec.json.encode(value).decode(),
    )
    return msgspec.structs.replace(made, **changes)


def make_withdrawal(of: Feedback, **changes: Any) -> Feedback:
    at_us = time.time_ns() // 1000
    made = Feedback(uuid7.mint(at_us), of.feedback_id, "withdraw", at_us, of.team_id, of.key_id)
    return msgspec.structs.replace(made, **changes)


def spool_feedback(spool: Spool, *feedback: Feedback) -> None:
    assert spool.append_feedback([encode_feedback(each) for each in feedback])
