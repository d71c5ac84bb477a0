"""The headers that say how a request is recorded and placed: its episode, tags, session and priority."""

import time
from collections.abc import Mapping

import msgspec

from app.domain.callers import MAX_PRIORITY, Caller
from app.domain.episode_names import RecordedEpisode
from app.gateway.request.gateway_options import NAMESPACE_TAG
from app.gateway.state.episode_id import Episode, EpisodeIds
from providers.canonical.errors import InvalidRequest
from providers.canonical.tags import check_tags
from providers.dialect import InboundRequest


def resolve_episode(
    request: InboundRequest,
    headers: Mapping[bytes, bytes],
    episode_ids: EpisodeIds,
    team_id: str,
    received_us: int,
    continued: RecordedEpisode | None = None,
) -> Episode:
    """The episode that the body or the header names, else that of the response that the request continues, else a new one.

    Raises InvalidRequest if body and header name two.
    """
    header_value = headers.get(b"x-narthex-episode-id")
    if header_value is None and request.episode_id is None:
        if continued is not None:
            return episode_ids.recorded(continued.id, team_id, continued.name)
        return episode_ids.mint(team_id, received_us)
    now_ms = time.time() * 1000
    of_header = None if header_value is None else episode_ids.read(_header_text(header_value), team_id, now_ms)
    of_body = None if request.episode_id is None else episode_ids.read(request.episode_id, team_id, now_ms)
    if of_header is not None and of_body is not None and of_header.id != of_body.id:
        raise InvalidRequest("The body's `episode_id` and the header x-narthex-episode-id name two episodes.", param="episode_id")
    episode = of_body or of_header
    assert episode is not None
    return episode


def _header_text(header_value: bytes) -> str:
    try:
        return header_value.decode()
    except UnicodeDecodeError as fault:
        raise InvalidRequest(
            f"The header x-narthex-episode-id is not UTF-8: byte {fault.start + 1} is {header_value[fault.start]:#04x}."
            " Send it as UTF-8, or as `episode_id` in the body.",
            param="episode_id",
        ) from None


def request_tags(request: InboundRequest | None, headers: Mapping[bytes, bytes], namespace: str | None = None) -> Mapping[str, str]:
    """The header's tags, else the body's; and TensorZero's `namespace`, which it too keeps as a tag. Raises InvalidRequest."""
    header_value = headers.get(b"x-narthex-tags")
    if header_value is None:
        tags: Mapping[str, str] = {} if request is None else request.tags
    else:
        try:
            tags = msgspec.json.decode(header_value, type=dict[str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as fault:
            raise InvalidRequest(f"The header x-narthex-tags must be a JSON object of strings: {fault}.") from None
    if namespace is not None:
        tags = {**tags, NAMESPACE_TAG: namespace}
    if tags:
        check_tags(tags)
    return tags


def read_priority(header_value: bytes, caller: Caller) -> int:
    """The priority of `x-narthex-priority`, which is at most that of the caller's key. Raises InvalidRequest."""
    try:
        priority = int(header_value)
    except ValueError:
        priority = None
    if priority is None or not -MAX_PRIORITY <= priority <= caller.priority:
        raise InvalidRequest(
            f"The header x-narthex-priority may be from {-MAX_PRIORITY} to {caller.priority}, which is the priority of this key:"
            " a caller may only lower it."
        )
    return priority
