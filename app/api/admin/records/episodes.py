"""Episodes: /admin/v1/episodes, /admin/v1/episodes/{id} and its timeline."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import asdict
from sqlalchemy.ext.asyncio import AsyncConnection

from app.api.admin.records.inference_filters import Amount, InferenceFilters, Outcomes, TeamId, parse_id, read_filters
from app.api.admin.records.inferences import TIMEOUT_S, Inference, Preview, page_of
from app.api.admin.records.reading_places import ReadingPlaces
from app.api.rest.command import Command, Option
from app.api.rest.fields import Values
from app.api.rest.operation import Answer, Call, NoBody, Operation
from app.api.rest.request_parsing import TimeText
from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.settings import Settings
from app.store.messages.previews import read_previews
from app.store.postgres.paging import Limit
from app.store.records import inference_queries
from app.store.records.episode_list import MAX_INFERENCES, EpisodeSums, LeastSums, page_episodes
from app.store.records.episode_lookup import check_episode
from app.store.records.episode_timeline import EpisodeTimeline, make_timeline, read_stored_timeline
from providers.canonical.errors import InvalidRequest, UnknownRecord

_MAX_TIMELINE_ROWS = 200


class Episode(Struct, frozen=True):
    """The inferences of an episode. `next`: give it as `after` for the next page; null: this is the last one."""

    id: str
    team_id: str
    inferences: Sequence[Inference]
    next: str | None


class EpisodeFeedback(Struct, frozen=True):
    """Feedback on an episode as a whole: the mean of its values that count."""

    metric: Annotated[str, Meta(description="The metric of the feedback.")]
    value: Annotated[float, Meta(description="The number, or 1 and 0 for true and false.")]


class ListedEpisode(Struct, frozen=True, kw_only=True):
    """An episode with the sums of all its inferences."""

    id: Annotated[str, Meta(description="The id of the episode.")]
    name: Annotated[str | None, Meta(description="The text that its caller names it by; null: none.")]
    team_id: Annotated[str, Meta(description="The UUID of its team.")]
    team: Annotated[str | None, Meta(description="The team's name; null: it was removed.")]
    key: Annotated[str | None, Meta(description="The public part of the key of its first inference; null: it was removed.")]
    end_user: Annotated[str | None, Meta(description="The first end user that was named in it.")]
    began_at: Annotated[str, Meta(description="When the first request was received.")]
    ended_at: Annotated[str, Meta(description="When the last response ended.")]
    duration_us: Annotated[int, Meta(description="From the first request to the end of the last response.")]
    inferences: Annotated[int, Meta(description="How many inferences it has.")]
    capped: Annotated[bool, Meta(description=f"It has more than {MAX_INFERENCES:,} inferences: the sums are of so many of them.")]
    failed: Annotated[int, Meta(description="How many of them were not answered.")]
    input_tokens: Annotated[int, Meta(description="Of all inferences, as far as it is reported.")]
    output_tokens: Annotated[int, Meta(description="Of all inferences, as far as it is reported.")]
    cost_microusd: Annotated[int, Meta(description="Of all inferences whose cost is known.")]
    unpriced: Annotated[int, Meta(description="How many inferences have no known cost.")]
    models: Annotated[Sequence[str], Meta(description="The models that were requested, at most ten.")]
    function: Annotated[str | None, Meta(description="Of its first inference.")]
    variant: Annotated[str | None, Meta(description="Of its first inference.")]
    experiment: Annotated[str | None, Meta(description="Of its first inference.")]
    feedback: Annotated[Sequence[EpisodeFeedback], Meta(description="By metric.")]
    preview: Preview


class ListedEpisodes(Struct, frozen=True):
    """A page of episodes, by their newest inference that the filters match."""

    data: Annotated[Sequence[ListedEpisode], Meta(description="The episodes.")]
    next: Annotated[str | None, Meta(description="Give it as `before` for the next page; null: this is the last one.")]
    searched_to: Annotated[str | None, Meta(description="The page took too long: until when was searched; `next` goes on from there.")]


class EpisodesQuery(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conditions that an inference of the episode must meet, and what the sums of all its inferences must reach."""

    limit: Annotated[int, Meta(ge=1, le=200, description="Most episodes of the page.")] = 50
    before: Annotated[str, Meta(description="`next` of the page before.")] | None = None
    since: TimeText | None = None
    until: TimeText | None = None
    team: Annotated[Values, Meta(description="Only of the team with this name.")] | None = None
    team_id: TeamId | None = None
    key: Annotated[Values, Meta(description="Only with an inference of the key with this public part.")] | None = None
    end_user: Annotated[Values, Meta(description="Only with an inference of this end user.")] | None = None
    tag: Annotated[str, Meta(max_length=2048, description="NAME=VALUE: only with an inference that has this tag.")] | None = None
    model: Annotated[Values, Meta(description="Only with a request for this model.")] | None = None
    provider: Annotated[Values, Meta(description="Only with an inference that this provider served.")] | None = None
    function: Annotated[Values, Meta(description="Only with a request for this function.")] | None = None
    variant: Annotated[Values, Meta(description="Only with an inference that was assigned to this variant or arm.")] | None = None
    experiment: Annotated[Values, Meta(description="Only with an inference that this experiment assigned.")] | None = None
    outcome: Annotated[Outcomes, Meta(description="Only with an inference of this outcome.")] | None = None
    error: Annotated[Values, Meta(description="Only with an inference that has this error.")] | None = None
    preview: Annotated[bool, Meta(description="Also the `preview` of each, of the newest inference that the filters match.")] = False
    min_inferences: Annotated[Amount, Meta(description="Only with at least so many inferences.")] = 0
    min_cost_microusd: Annotated[Amount, Meta(description="Only what cost at least this in all.")] = 0
    min_duration_us: Annotated[Amount, Meta(description="Only what took at least this long from beginning to end.")] = 0

    def inference_filters(self) -> InferenceFilters:
        same = {name: value for name, value in asdict(self).items() if name not in _OF_EPISODES}
        return InferenceFilters(**same)


_OF_EPISODES = ("limit", "before", "preview", "min_inferences", "min_cost_microusd", "min_duration_us")


_Team = Annotated[str, Meta(description="The UUID of a team, as `team_id` of its records, or its name.")]


class EpisodeQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Limit = 1000
    after: Annotated[str, Meta(description="`next` of the page before.")] | None = None
    team_id: _Team | None = None


class TimelineQuery(Struct, frozen=True, forbid_unknown_fields=True):
    limit: Annotated[int, Meta(ge=1, le=_MAX_TIMELINE_ROWS, description="Most inferences of the page.")] = 100
    content: Annotated[
        Literal["none", "messages"], Meta(description="`messages`: each turn has what is new in it, if your roles show what was written.")
    ] = "none"
    max_characters: Annotated[int, Meta(ge=1, le=20_000, description="Most characters of each part of a message.")] = 4_000
    after: Annotated[str, Meta(description="`next` of the page before.")] | None = None
    team_id: _Team | None = None


async def _show_episode(call: Call[EpisodeQuery, NoBody]) -> Answer:
    id, after, team_id = await _find_episode(call, call.connection)
    rows = await inference_queries.list_episode(call.connection, team_id, id, after=after, limit=call.query.limit + 1)
    return Answer(Episode(id, team_id, *page_of(call, rows, call.query.limit)))


async def _show_timeline(call: Call[TimelineQuery, NoBody]) -> Answer:
    # As of inferences: what hosts say, and where they are, is of the configuration that teams share.
    hidden = () if call.principal.may("config:read") else ("endpoint", "code")
    async with call.read_transaction() as connection:
        id, after, team_id = await _find_episode(call, connection)
        with_content = call.is_visible(await inference_queries.find_team_name(connection, team_id), "records:content")
        stored = await read_stored_timeline(
            connection,
            team_id,
            id,
            after=after,
            limit=call.query.limit,
            with_tools=with_content,
            with_messages=with_content and call.query.content == "messages",
        )
    if stored is None:  # it has expired since
        raise _no_episode(id)
    timeline = await make_timeline(
        stored, team_id, id, hidden=hidden, content_hidden=not with_content, max_characters=call.query.max_characters
    )
    return Answer(timeline)


async def _find_episode(
    call: Call[EpisodeQuery, NoBody] | Call[TimelineQuery, NoBody], connection: AsyncConnection
) -> tuple[str, str | None, str]:
    """The episode, where to go on, and the one team that has it. Raises UnknownRecord, InvalidRequest.

    Several teams may have it: one that uses another's id or name has an episode of its own.
    """
    try:
        named, query = check_episode(call.path["id"], "id"), call.query
    except InvalidKeyField as fault:
        raise InvalidRequest(str(fault), param=fault.field) from None
    after, visible, team = query.after and parse_id(query.after, "after"), call.visible_teams(), query.team_id
    team_id = team.lower() if team is not None and uuid7.is_uuid7(team) else None
    only = visible if team is None or team_id is not None else frozenset({team} if visible is None else {team} & visible)
    found = await inference_queries.find_episodes(connection, named, team_id=team_id, only_teams=only)
    if len(found) > 1:
        teams = [f"{await inference_queries.find_team_name(connection, each) or 'removed'} ({each})" for each in found]
        raise InvalidRequest(f"{len(teams)} teams have an episode {named}: name one by `team_id`: {', '.join(teams)}.", param="team_id")
    if not found and team is not None and team_id is None:
        raise InvalidRequest(f"There is no inference of an episode {named} of a team {team!r:.100}.", param="team_id")
    if not found:
        raise _no_episode(named)
    return next(iter(found.values())), after, next(iter(found))


def _no_episode(named: str) -> UnknownRecord:
    return UnknownRecord(f"There is no inference of an episode {named}. A new one is recorded a moment after its response.")


def _listed(found: EpisodeSums, preview: str | None) -> ListedEpisode:
    same: dict[str, Any] = {name: getattr(found, name) for name in ListedEpisode.__struct_fields__ if name != "preview"}
    times: dict[str, Any] = {"began_at": found.began_at.isoformat(), "ended_at": found.ended_at.isoformat()}
    feedback = [EpisodeFeedback(metric, value) for metric, value in sorted(found.feedback.items())]
    others: dict[str, Any] = {"key": found.key and f"nx-{found.key}", "feedback": feedback, "preview": preview}
    return ListedEpisode(**{**same, **times, **others})


def operations(settings: Settings) -> list[Operation[Any, Any]]:
    places = ReadingPlaces()

    async def show_timeline(call: Call[TimelineQuery, NoBody]) -> Answer:
        async with places.place():
            return await _show_timeline(call)

    async def list_episodes(call: Call[EpisodesQuery, NoBody]) -> Answer:
        query = call.query
        least = LeastSums(query.min_inferences, query.min_cost_microusd, query.min_duration_us)
        page = await page_episodes(
            call.connection,
            read_filters(call, query.inference_filters()),
            least,
            keep_hours_days=settings.keep_hours_days,
            before=query.before and parse_id(query.before, "before"),
            limit=query.limit,
        )
        searched_to = page.searched_to and page.searched_to.isoformat(timespec="milliseconds")
        previews: Mapping[str, str] = {}
        if query.preview:
            visible = {each.newest: each.route for each in page.episodes if call.is_visible(each.team, "records:content")}
            previews = await read_previews(call.connection, visible)
        data = [_listed(each, previews.get(each.newest)) for each in page.episodes]
        return Answer(ListedEpisodes(data, page.next, searched_to))

    return [
        Operation(
            method="GET",
            path="/episodes",
            id="list_episodes",
            tag="Records",
            summary="List episodes, those with the newest inferences first",
            description="Filters choose episodes by their inferences; sums are of all inferences of an episode, without shadows. A filter"
            " given several times takes any of its values.",
            permission="records:read",
            scope="team",
            query=EpisodesQuery,
            response=ListedEpisodes,
            timeout_s=TIMEOUT_S,
            handler=list_episodes,
        ),
        Operation(
            method="GET",
            path="/episodes/{id}",
            id="get_episode",
            tag="Records",
            summary="List the inferences of an episode, oldest first",
            permission="records:read",
            scope="team",
            query=EpisodeQuery,
            response=Episode,
            errors={404: "There is no such episode, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            handler=_show_episode,
        ),
        Operation(
            method="GET",
            path="/episodes/{id}/timeline",
            id="get_episode_timeline",
            tag="Records",
            summary="Show an episode as a timeline: attempts, tool calls and sums",
            permission="records:read",
            scope="team",
            access="memory",
            query=TimelineQuery,
            response=EpisodeTimeline,
            errors={404: "There is no such episode, or it is not of one of your teams."},
            timeout_s=TIMEOUT_S,
            commands=(
                Command(
                    name="episode",
                    summary="Show an episode as a timeline: requests, attempts and tool calls.",
                    help="ID is its UUID, or the text that its caller names it by. Each request has its attempts below it, each with a bar"
                    " for when it ran, and the tools that the model called, if the response is kept. Of a request with variants it shows"
                    " the assigned one and, after an arrow, the one that answered if it is another; then the experiment as NAME@VERSION,"
                    " and why the request does not count there if so.",
                    examples=("episode 019a2c3d-0000-7000-8000-000000000000", "episode ticket-4711 --team support --text"),
                    options={
                        "team_id": Option(flag="--team", help="The team, where several have an episode with this id."),
                        "limit": Option(help="Most requests to show."),
                        "after": Option(metavar="ID", help="Go on after this request."),
                        "content": Option(constants={"--text": ("messages", "Also print what was written in each.")}),
                    },
                    render="episodes.timeline",
                ),
            ),
            handler=show_timeline,
        ),
    ]
