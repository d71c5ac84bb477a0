"""The filters of recorded inferences, which lists, counts, exports, streams and replays share."""

from collections.abc import Collection
from datetime import UTC
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from app.api.rest.exclusions import PREFIX, excludable, with_exclusions
from app.api.rest.fields import SEVERAL, Statuses, Values
from app.api.rest.operation import Call
from app.api.rest.request_parsing import TimeText, parse_time
from app.domain import uuid7
from app.domain.exchange import OriginKind, Outcome
from app.store.access.roles import Permission
from app.store.keys.key_format import parse_prefix
from app.store.postgres.conditions import AnyOf, values_of
from app.store.records.episode_lookup import check_episode
from app.store.records.inference_filter import InferenceFilter
from app.store.records.search_words import MAX_SEARCH_CHARACTERS, read_search
from providers.canonical.errors import InvalidRequest, NotAllowed

TeamId = Annotated[str, Meta(description="The UUID of a team, as `team_id` of its records.")]

_User = Annotated[str, Meta(max_length=1024)]
_Users = _User | Annotated[tuple[_User, ...], SEVERAL]
Outcomes = Outcome | Annotated[tuple[Outcome, ...], SEVERAL]
Amount = Annotated[int, Meta(ge=0, le=2**53)]


class ChosenInferences(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an inference must meet: all of them, and of several values of one any. What was not measured is in no range."""

    model: Annotated[Values, Meta(description="Only of requests for this model.")] | None = None
    team: Annotated[Values, Meta(description="Only of the team with this name.")] | None = None
    team_id: TeamId | None = None
    outcome: Annotated[Outcomes, Meta(description="Only with this outcome.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    key: Annotated[Values, Meta(description="Only of the key with this public part.")] | None = None
    episode_id: Annotated[str, Meta(description="Only of this episode: its UUID, or the text that its caller names it by.")] | None = None
    end_user: Annotated[_Users, Meta(description="Only of this end user.")] | None = None
    tag: Annotated[str, Meta(max_length=2048, description="NAME=VALUE: only with this tag.")] | None = None
    provider: Annotated[Values, Meta(description="Only served by this provider.")] | None = None
    served_model: Annotated[Values, Meta(description="Only served by this model of a provider.")] | None = None
    route: Annotated[Values, Meta(description="Only of this route, such as openai_chat.")] | None = None
    function: Annotated[Values, Meta(description="Only of requests for this function.")] | None = None
    variant: Annotated[Values, Meta(description="Only assigned to this variant or arm.")] | None = None
    experiment: Annotated[Values, Meta(description="Only assigned by this experiment.")] | None = None
    shadow: Annotated[str, Meta(max_length=512, description="Only of the shadow of this function or model.")] | None = None
    status: Annotated[Statuses, Meta(description="Only with this status, such as 200, or 5xx.")] | None = None
    error: Annotated[Values, Meta(description="Only with this error.")] | None = None
    min_cost_microusd: Annotated[Amount, Meta(description="Only what cost at least this.")] | None = None
    max_cost_microusd: Annotated[Amount, Meta(description="Only what cost at most this.")] | None = None
    min_duration_us: Annotated[Amount, Meta(description="Only what took at least this long.")] | None = None
    max_duration_us: Annotated[Amount, Meta(description="Only what took at most this long.")] | None = None
    min_first_token_us: Annotated[Amount, Meta(description="Only streams whose first token took at least this long.")] | None = None
    max_first_token_us: Annotated[Amount, Meta(description="Only streams whose first token took at most this long.")] | None = None
    min_input_tokens: Annotated[Amount, Meta(description="Only with at least so many input tokens.")] | None = None
    max_input_tokens: Annotated[Amount, Meta(description="Only with at most so many input tokens.")] | None = None
    min_output_tokens: Annotated[Amount, Meta(description="Only with at least so many output tokens.")] | None = None
    max_output_tokens: Annotated[Amount, Meta(description="Only with at most so many output tokens.")] | None = None
    min_attempts: Annotated[int, Meta(ge=0, le=1000, description="Only with at least so many attempts.")] | None = None
    trace_id: Annotated[str, Meta(pattern="^[0-9a-fA-F]{32}$", description="Only of this trace.")] | None = None
    request_id: Annotated[str, Meta(max_length=128, description="Only with this `x-request-id`.")] | None = None
    origin: Annotated[
        OriginKind | Literal["caller"] | None,
        Meta(description="Only requests of callers, or only those that the gateway made itself: shadows, replays, judges, the playground."),
    ] = None
    original_id: Annotated[str, Meta(description="Only what the gateway made of this inference.")] | None = None
    text: (
        Annotated[
            str,
            Meta(
                max_length=MAX_SEARCH_CHARACTERS,
                description='Only where this was written: words, "phrases", `or`, and `-` before what must not be there.',
            ),
        ]
        | None
    ) = None


class InferenceFilters(with_exclusions(ChosenInferences), frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an inference must meet: all of them, and of several values of one any. What was not measured is in no range.

    What has a value of a `not_` filter is left out; what has none there stays.
    """


def read_filters(call: Call[Any, Any], given: InferenceFilters | None = None, permission: Permission | None = None) -> InferenceFilter:
    """Reads the filters of the query, or those `given`. Raises InvalidRequest.

    `permission` says of which teams inferences are found; None means the operation's.
    """
    query: InferenceFilters = call.query if given is None else given
    if query.text is None:
        return to_filter(query, call.visible_teams(permission))
    searched = call.visible_teams("records:content")
    found = to_filter(query, searched)
    if searched == frozenset():
        raise NotAllowed("Your roles do not show what was written, so you cannot search it: that takes 'records:content'.", param="text")
    return found


def to_filter(
    query: InferenceFilters, only_teams: Collection[str] | None, *, sent_by_people: Literal[True] | None = None
) -> InferenceFilter:
    """Reads filters. `only_teams` are names; None means all. For `sent_by_people` see InferenceFilter. Raises InvalidRequest."""
    tag = query.tag and query.tag.partition("=")
    if tag and not (tag[0] and tag[1]):
        raise InvalidRequest("`tag` must be NAME=VALUE.", param="tag")
    same = {name: getattr(query, name) for name in _TAKEN_OVER}
    return InferenceFilter(
        **same,
        **_values_by_filter(query, ""),
        team_id=query.team_id and parse_id(query.team_id, "team_id"),
        since_ms=_to_ms(query.since, "since"),
        until_ms=_to_ms(query.until, "until"),
        only_teams=only_teams,
        sent_by_people=sent_by_people,
        episode=None if query.episode_id is None else check_episode(query.episode_id),
        tag=(tag[0], tag[2]) if tag else None,
        trace_id=query.trace_id and query.trace_id.lower(),
        original_id=query.original_id and parse_id(query.original_id, "original_id"),
        text=None if query.text is None else read_search(query.text),
        excluded=InferenceFilter(**excluded) if (excluded := _values_by_filter(query, PREFIX)) else None,
    )


def _values_by_filter(query: InferenceFilters, prefix: str) -> dict[str, Any]:
    """The values of those filters that have an exclusion, or of their exclusions. Raises InvalidRequest."""
    given = {name: value for name in excludable(ChosenInferences) if (value := getattr(query, prefix + name)) is not None}
    if "key" in given:
        given["key"] = parse_keys(given["key"], prefix + "key")
    statuses: tuple[str, ...] = values_of(given.pop("status", None))
    if statuses:
        given["status"] = tuple(int(each) for each in statuses if not each.endswith("xx")) or None
        given["status_class"] = tuple(int(each[0]) for each in statuses if each.endswith("xx")) or None
    return given


_TAKEN_OVER = (
    *("shadow", "min_cost_microusd", "max_cost_microusd", "min_duration_us", "max_duration_us", "min_first_token_us", "max_first_token_us"),
    *("min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens", "min_attempts", "request_id", "origin"),
)


def parse_keys(given: AnyOf | None, param: str = "key") -> tuple[str, ...] | None:
    """The public parts of keys, without nx-. Raises InvalidRequest."""
    prefixes = [parse_prefix(each) for each in values_of(given)]
    if None in prefixes:
        raise InvalidRequest(f"`{param}` must be the public part of a key, such as nx-0123456789ab.", param=param)
    return tuple(each for each in prefixes if each is not None) or None


def parse_id(text: str, name: str) -> str:
    if not uuid7.is_uuid7(text):
        raise InvalidRequest(f"`{name}` must be a UUIDv7, not {text!r:.60}.", param=name)
    return text.lower()


def _to_ms(text: str | None, name: str) -> int | None:
    """Unix time in milliseconds."""
    return None if text is None else int(parse_time(text, name).astimezone(UTC).timestamp() * 1000)
