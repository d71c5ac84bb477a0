"""Erased rows: an erasure leaves usage, cost and times of an inference, and nothing that says whose it was or
what was written.

docs/privacy.md lists what is gone and what remains.
"""

import datetime
from collections.abc import Collection, Iterable
from typing import Any, cast
from uuid import UUID

import msgspec
from msgspec.structs import replace

from app.domain.episode_names import is_named_episode_id
from app.domain.exchange import Exchange
from app.recording.rows.inference_rows import PackedContent
from app.store.postgres.inference_columns import INFERENCE_COLUMNS
from app.store.postgres.locks import ERASED

_POSITIONS = {name: at for at, name in enumerate(INFERENCE_COLUMNS)}
_REMOVED = [_POSITIONS[name] for name in ("message", "trace_id", "parent_span_id", "request_id", "episode_name", "experiment_unit")]
_OF_ATTEMPTS = ("message", "request_id")  # what a host says may repeat a prompt, and by its id it finds the request
_ID, _TEAM, _EPISODE, _TAGS, _END_USER = (_POSITIONS[name] for name in ("id", "team_id", "episode_id", "tags", "end_user"))
_ATTEMPTS, _ERASED_AT = _POSITIONS["attempts"], _POSITIONS["erased_at"]

ERASED_CONTENT = PackedContent("erased")


def erase_row(row: tuple[Any, ...], keep_tags: Collection[str], at: datetime.datetime, *, erase_episode: bool) -> tuple[Any, ...]:
    """Returns the row as it stays, in the order of INFERENCE_COLUMNS.

    With `erase_episode` it becomes an episode of its own. So does a row of an episode that its caller names
    by a text: whoever guesses the text would find its id, with no key.
    """
    erased = [*row]
    for position in _REMOVED:
        erased[position] = None
    erased[_ATTEMPTS] = _erase_attempts(row[_ATTEMPTS])
    erased[_TAGS] = _erase_tags(row[_TAGS], keep_tags)
    erased[_END_USER] = ERASED if row[_END_USER] else row[_END_USER]
    erased[_EPISODE] = row[_ID] if erase_episode or is_named_episode_id(str(UUID(row[_TEAM])), str(UUID(row[_EPISODE]))) else row[_EPISODE]
    erased[_ERASED_AT] = at
    return tuple(erased)


def lost_episodes(rows: Iterable[tuple[Any, ...]], erased: Iterable[tuple[Any, ...]]) -> set[tuple[str, str]]:
    """Returns the episodes, by team and id, to which these rows belonged and what is left of them does not."""
    return {
        (str(UUID(row[_TEAM])), str(UUID(row[_EPISODE])))
        for row, left in zip(rows, erased, strict=True)
        if str(UUID(row[_EPISODE])) != str(UUID(left[_EPISODE]))
    }


def erase_exchange(exchange: Exchange) -> Exchange:
    """Returns the exchange as it is counted in exported metrics. It belongs to no trace."""
    attempts = tuple(replace(each, message=None, request_id=None) for each in exchange.attempts)
    trace: dict[str, Any] = {"trace_id": None, "parent_span_id": None, "sampled": False}
    return replace(exchange, message=None, attempts=attempts, tags={}, end_user=None, request_id=None, episode_name=None, **trace)


def _erase_tags(tags: str | None, keep_tags: Collection[str]) -> str | None:
    if tags is None:
        return None
    values: dict[str, str] = msgspec.json.decode(tags)
    return msgspec.json.encode({name: value if name in keep_tags else ERASED for name, value in values.items()}).decode()


def _erase_attempts(attempts: str | None) -> str | None:
    decoded = None if attempts is None else msgspec.json.decode(attempts)
    if not isinstance(decoded, list):
        return attempts
    for attempt in cast("list[Any]", decoded):
        if isinstance(attempt, dict):
            cast("dict[str, Any]", attempt).update({name: None for name in _OF_ATTEMPTS if name in attempt})
    return msgspec.json.encode(decoded).decode()
