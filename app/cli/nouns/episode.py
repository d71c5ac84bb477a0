"""narthex episode: an episode as a timeline."""

from collections.abc import Iterator
from typing import Any

import click

from app.cli.errors import CommandError
from app.cli.nouns.assigned_arms import experiment_text, variant_text
from app.cli.output import json_option, pluralize, print_json, printable
from app.cli.store_query import query_store
from app.domain import uuid7
from app.domain.errors import InvalidKeyField
from app.store.postgres.admin_transactions import admin_transaction
from app.store.postgres.database import create_database_engine
from app.store.records import inference_queries
from app.store.records.episode_lookup import check_episode
from app.store.records.episode_timeline import EpisodeTimeline, TimelineAttempt, TimelineInference, read_timeline

_STATEMENT_TIMEOUT_S = 30.0
_MAX_SHOWN = 1000
_BAR_WIDTH = 30
_TARGET_WIDTH = 36


@click.command()
@click.argument("named", metavar="ID")
@click.option("--team", help="The team, where several have an episode with this id.")
@click.option("--limit", type=click.IntRange(1, _MAX_SHOWN), default=100, show_default=True, help="Most requests to show.")
@click.option("--after", metavar="ID", help="Go on after this request.")
@json_option
def episode(named: str, team: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """Show an episode as a timeline: requests, attempts and tool calls.

    ID is its UUID, or the text that its caller names it by. Each request has its attempts below it, each with a bar for when it ran, and
    the tools that the model called, if the response is kept. Of a request with variants it shows the assigned one and, after an arrow, the
    one that answered if it is another; then the experiment as NAME@VERSION, and why the request does not count there if so.

    \b
    Examples:
      narthex episode 019a2c3d-0000-7000-8000-000000000000
      narthex episode ticket-4711 --team support

    With --json: what GET /admin/v1/episodes/{id}/timeline returns.
    """
    try:
        check_episode(named)
    except InvalidKeyField as fault:
        raise click.BadParameter(str(fault), param_hint="ID") from None
    if after is not None and not uuid7.is_uuid7(after):
        raise click.BadParameter("it is not a UUIDv7", param_hint="--after")

    async def read(url: str) -> EpisodeTimeline:
        engine = create_database_engine(url)
        try:
            async with admin_transaction(engine, _STATEMENT_TIMEOUT_S, read_only=True) as connection:
                found = await inference_queries.find_episodes(connection, named, **_of_team(team))
                names = {await inference_queries.find_team_name(connection, each) or each: each for each in found}
                team_id = _only_team(named, names)
                timeline = await read_timeline(connection, team_id, found[team_id], after=after and after.lower(), limit=limit)
        finally:
            await engine.dispose()
        if timeline is None:
            raise _no_episode(named)
        return timeline

    timeline = query_store(read)
    if as_json:
        print_json(timeline)
        return
    for line in _draw(timeline):
        click.echo(printable(line))
    if timeline.next is not None:
        click.echo(f"There are more: --after {timeline.next} shows them.", err=True)


def _of_team(team: str | None) -> dict[str, Any]:
    """`team`: its name, or its id if it was removed."""
    if team is None:
        return {}
    return {"team_id": team.lower()} if uuid7.is_uuid7(team) else {"only_teams": [team]}


def _only_team(named: str, names: dict[str, str]) -> str:
    """The id of the team. `names`: of those that have the episode."""
    if not names:
        raise _no_episode(named)
    if len(names) > 1:
        raise CommandError(f"Several teams have an episode {named}: name one by --team: {', '.join(sorted(names))}.")
    return next(iter(names.values()))


def _no_episode(named: str) -> CommandError:
    return CommandError(f"There is no request of an episode {named}. A new one is recorded a moment after its response.")


def _draw(timeline: EpisodeTimeline) -> Iterator[str]:
    totals = timeline.totals
    cost = f"${totals.cost_microusd / 1_000_000:.6f}" + (f" and {totals.unpriced} of unknown cost" if totals.unpriced else "")
    name = "" if timeline.name is None else f" ({timeline.name})"
    whose = f"{name} of {timeline.team or timeline.team_id}"
    yield f"Episode {timeline.id}{whose}, from {_time(timeline.began_at)} to {_time(timeline.ended_at)}"
    yield (
        f"{pluralize(totals.inferences, 'request')} ({totals.failed} not answered), {pluralize(totals.attempts, 'attempt')},"
        f" {totals.input_tokens:,} tokens in, {totals.output_tokens:,} out, {cost}"
    )
    for each in timeline.inferences:
        yield ""
        yield from _draw_inference(each)


def _draw_inference(inference: TimelineInference) -> Iterator[str]:
    facts = [f"{inference.status}", inference.error or inference.finish_reason or inference.outcome]
    if inference.input_tokens is not None or inference.output_tokens is not None:
        facts.append(f"{inference.input_tokens or 0:,} → {inference.output_tokens or 0:,} tokens")
    if inference.cost_microusd is not None:
        facts.append(f"${inference.cost_microusd / 1_000_000:.6f}")
    variant = variant_text(inference.variant, inference.served_variant)
    model = f"{inference.model}  {variant}" if variant else inference.model
    if inference.experiment is not None:
        why = "" if inference.not_enrolled is None else f" (not enrolled: {inference.not_enrolled})"
        model += f"  {experiment_text(inference.experiment, inference.experiment_version)}{why}"
    yield f"+{_seconds(inference.offset_us)}  {model}  {_seconds(inference.duration_us)}  {', '.join(facts)}  {inference.id}"
    for attempt in inference.attempts:
        yield f"  {_bar(attempt, inference.duration_us)} {_describe_attempt(attempt)}"
    for call in inference.tool_calls or ():
        yield f"  → {call.name}({call.arguments})".replace("\n", " ")


def _describe_attempt(attempt: TimelineAttempt) -> str:
    target = f"{attempt.provider}/{attempt.served_model}"
    began = "" if attempt.started_us is None else f"+{_seconds(attempt.started_us)}"
    took = "" if attempt.duration_us is None else _seconds(attempt.duration_us)
    ended = "served" if attempt.error is None else " ".join(str(each) for each in (attempt.status, attempt.error, attempt.code) if each)
    reason = "" if attempt.reason == "first" else f" ({attempt.reason})"
    return f"{target:{_TARGET_WIDTH}} {began:>10} {took:>10}  {ended}{reason}"


def _bar(attempt: TimelineAttempt, total_us: int) -> str:
    """Draws when an attempt ran, on the scale of the request. One whose start is not recorded fills its end."""
    took_us = min(total_us, total_us if attempt.duration_us is None else attempt.duration_us)
    began_us = total_us - took_us if attempt.started_us is None else min(attempt.started_us, total_us)
    scale = _BAR_WIDTH / max(1, total_us)
    begin = min(_BAR_WIDTH - 1, int(began_us * scale))
    length = max(1, min(_BAR_WIDTH - begin, round(took_us * scale)))
    return "▕" + " " * begin + ("█" if attempt.error is None else "░") * length + " " * (_BAR_WIDTH - begin - length) + "▏"


def _seconds(microseconds: int) -> str:
    return f"{microseconds / 1_000_000:.3f} s"


def _time(iso: str) -> str:
    return f"{iso[:19].replace('T', ' ')} UTC"
