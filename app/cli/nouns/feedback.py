"""narthex feedback: list feedback of callers, find what is about nothing, and send some."""

from datetime import datetime
from typing import Any

import click
import msgspec

from app.cli.admin_api import AdminAccess, send
from app.cli.errors import CommandError, OrderedGroup
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_in_transaction
from app.cli.times import PastMomentParam, format_time
from app.settings import Settings
from app.store.keys.validation import parse_prefix
from app.store.records.feedback_queries import FeedbackEvent, FeedbackFilter, list_feedback
from app.supervisor.machine.errors import OperatorError
from app.supervisor.machine.gateway_url import reachable_url

_MAX_VALUE_CHARS = 60


@click.group(cls=OrderedGroup)
def feedback() -> None:
    """List what callers say of inferences and episodes.

    `narthex metrics` lists what they may say. docs/feedback.md is a guide.
    """


@feedback.command("list")
@click.option("--metric", help="Only of this metric.")
@click.option("--team", help="Only of this team.")
@click.option("--key", help="Only sent with the key with this public part.")
@click.option("--inference", "inference_id", help="Only on this inference.")
@click.option("--episode", help="Only on this episode: its UUID, or the text that its caller names it by.")
@click.option("--model", help="Only on inferences of this model.")
@click.option("--history", is_flag=True, help="Also what was corrected, withdrawn or replaced, and so no longer counts.")
@click.option("--since", type=PastMomentParam(), help="From this time on: 2h (ago), 2026-11-01 or 2026-11-01T08:00Z.")
@click.option("--until", type=PastMomentParam(), help="Before this time.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many events.")
@json_option
def list_command(
    since: datetime | None, until: datetime | None, limit: int, as_json: bool, history: bool, key: str | None, **filters: Any
) -> None:
    """List feedback, newest first.

    \b
    Examples:
      narthex feedback list --metric helpful --since 1d
      narthex feedback list --inference 019aa3f4-7492-7b70-8347-9564aeb44a24 --history

    With --json: {"feedback": [{"id", "feedback_id", "action", "received_at", "team", "key", "metric", "kind", "level", "inference_id",
    "episode_id", "value", "content", "tags", "current", "matched_at", "model", "function", "variant", "erased_at",
    "not_enrolled"}]}.
    """
    prefix = key and parse_prefix(key)
    if key is not None and prefix is None:
        raise click.BadParameter("it must be the public part of a key, such as nx-0123456789ab.", param_hint="--key")
    _print_events(FeedbackFilter(key=prefix, current=None if history else True, since=since, until=until, **filters), limit, as_json)


@feedback.command("unmatched")
@click.option("--team", help="Only of this team.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many events.")
@json_option
def unmatched(team: str | None, limit: int, as_json: bool) -> None:
    """List feedback whose inference or episode is not recorded.

    It may be so new that its inference has not ended; its inference may be in the spool of a machine that is off; or there is none with
    that id in its team.

    \b
    Example:
      narthex feedback unmatched --team search

    With --json: as `narthex feedback list`.
    """
    _print_events(FeedbackFilter(team=team, matched=False), limit, as_json)


@feedback.command("conflicts")
@click.option("--team", help="Only of this team.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many events.")
@json_option
def conflicts(team: str | None, limit: int, as_json: bool) -> None:
    """List feedback that was sent with the id of other feedback.

    It does not count: what was sent first under that id does, which `narthex feedback list` shows. Most of it is refused when it is sent;
    this is what was accepted while the first was on its way to the database.

    \b
    Example:
      narthex feedback conflicts --team search

    With --json: as `narthex feedback list`.
    """
    _print_events(FeedbackFilter(team=team, action="conflict"), limit, as_json)


@feedback.command("send")
@click.argument("metric")
@click.argument("value")
@click.option("--inference", "inference_id", help="The inference that it is about: the id of a response.")
@click.option("--episode", "episode_id", help="Or the episode.")
@click.option("--id", help="Your own name for it: sent again with it, it is stored once.")
@click.option("--key", envvar="NARTHEX_KEY", show_envvar=True, help="The key to send; by default, the first key of this home.")
@json_option
def send_command(metric: str, value: str, key: str | None, as_json: bool, **fields: str | None) -> None:
    """Send feedback to the running gateway: VALUE of METRIC.

    VALUE is JSON if it can be read as JSON, such as true, 0.5 or "a text"; else it is a text.

    \b
    Examples:
      narthex feedback send helpful true --inference 019aa3f4-7492-7b70-8347-9564aeb44a24
      narthex feedback send comment "Just what I needed." --episode ticket-4711

    With --json: the answer of the gateway.
    """
    settings = Settings.read()
    access = AdminAccess(reachable_url(settings), key.strip() if key else _first_key(settings))
    body = {"metric": metric, "value": _read_value(value), **{name: field for name, field in fields.items() if field is not None}}
    response = send(settings, access, "POST", "/v1/feedback", msgspec.json.encode(body))
    if response.status != 201:
        raise CommandError(str(response.document.get("error", {}).get("message", response.document)))
    if as_json:
        print_json(response.document)
    else:
        click.echo(response.document["id"])


def _read_value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _first_key(settings: Settings) -> str:
    path = settings.home.absolute() / "first-key"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        raise OperatorError(f"There is no key in {path}: give one with --key, or set NARTHEX_KEY.") from None


def _print_events(filters: FeedbackFilter, limit: int, as_json: bool) -> None:
    events = query_in_transaction(lambda connection: list_feedback(connection, filters, before=None, limit=limit))
    if as_json:
        print_json({"feedback": events})
    elif not events:
        click.echo("No feedback matches.")
    else:
        print_table(("RECEIVED", "FEEDBACK", "TEAM", "METRIC", "VALUE", "ON", "MODEL"), [_cells(each) for each in events])


def _cells(event: FeedbackEvent) -> list[str]:
    value = msgspec.json.encode(event.value).decode() if event.value is not None else f"({event.content})"
    target = event.inference_id or f"episode {event.episode_id}"
    return [
        *(format_time(event.received_at), event.feedback_id, event.team or ""),
        *(event.metric or "(withdrawn)", "" if event.metric is None else printable(value[:_MAX_VALUE_CHARS])),
        *("" if event.level is None else target, event.model or ("" if event.matched_at else "not found yet")),
    ]
