"""Replays, their items and their results, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.cli.output import print_table, printable
from app.cli.times import format_time
from app.domain.replay_refusals import REFUSALS
from app.process.plain_numbers import plain_number


def listed(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("No replay matches." if arguments else "There are no replays yet; docs/replay.md shows how to start one.")
        return
    rows = [
        (
            *(each["id"], _through(each["definition"]), each["team"] or "", format_time(each["created_at"])),
            *(each["status"], _progress(each["items"]), f"{each['spent_usd']:.4f}"),
        )
        for each in document["data"]
    ]
    print_table(("ID", "THROUGH", "TEAM", "STARTED", "STATUS", "DONE", "SPENT USD"), rows)
    _print_next(document)


def shown(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    definition, refused, id = document["definition"], document["items"]["refused"], document["id"]
    filters = ", ".join(f"{name}={printable(str(value))}" for name, value in definition["filter"].items())
    click.echo(f"through: {printable(_through(definition))}")
    click.echo(f"of: {filters or 'everything'}")
    click.echo(printable(f"paid by: {definition['key']}" + (f", team {document['team']}" if document["team"] else "")))
    click.echo(printable(f"status: {document['status']}" + (f" ({document['reason']})" if document["reason"] else "")))
    click.echo(f"items: {_progress(document['items'])}" + (f", {refused:,} refused" if refused else ""))
    if refused:
        click.echo(f"why: `narthex replay items {id} --status refused` has the reason of each; docs/replay.md lists them")
    if document["retried"]:
        click.echo(f"tried again: {document['retried']:,}, as the process that ran them had ended")
    cap = "" if definition["max_usd"] is None else f" of {plain_number(definition['max_usd'])}"
    click.echo(f"spent: {document['spent_usd']:.6f}{cap} USD, {document['reserved_usd']:.6f} reserved")
    print_refused(document["refused"])


def print_refused(refused: Mapping[str, int]) -> None:
    """How many requests of the sample cannot be replayed, by reason."""
    for reason, count in sorted(refused.items()):
        click.echo(f"cannot be replayed: {count:,} {REFUSALS.get(reason, reason)}")


def items(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("The replay has no such request.")
        return
    titles = ("NUMBER", "ORIGINAL", "REPLAYED", "STATUS", "REASON", "TRIES", "SAME", "JUDGE", "COST USD")
    print_table(titles, [_item_cells(each) for each in document["data"]])
    _print_next(document)


def results(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(f"{document['pairs']:,} pairs of {document['units']:,} episodes, {document['status']}")
    titles = ("METRIC", "ORIGINAL", "REPLAYED", "DIFFERENCE", f"{document['confidence']:.1%} INTERVAL", "VERDICT")
    print_table(titles, [_metric_cells(each) for each in document["metrics"]])
    match, judged = document["match"], document["judge"]
    if match["share"] is not None:
        click.echo(f"same: {match['same']:,} of {match['compared']:,} pairs, {match['share']:.1%} {_interval(match['interval'])}")
    if judged is not None and judged["score"] is not None:
        outcomes = f"{judged['wins']:,} won, {judged['losses']:,} lost, {judged['ties']:,} ties"
        click.echo(f"judge: {judged['score']:.3f} {_interval(judged['interval'])}: {outcomes}")
        flips = f"the orders disagreed in {judged['flip_rate'] or 0:.1%} of pairs"
        click.echo(f"judge: {flips}; {judged['failed']:,} pairs have no judgement")
    click.echo(document["summary"])


def _print_next(document: Mapping[str, Any]) -> None:
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def _through(definition: Mapping[str, Any]) -> str:
    return definition["model"] if definition["variant"] is None else f"{definition['model']}, {definition['variant']}"


def _progress(items: Mapping[str, int]) -> str:
    return f"{items['done'] + items['refused']:,} of {sum(items.values()):,}"


def _item_cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    same = "" if each["same"] is None else "yes" if each["same"] else "no"
    score = "" if each["judgement"] is None else f"{each['judgement']['score']:.3g}"
    return (
        *(str(each["number"]), each["original_id"], each["inference_id"] or "", each["status"], each["reason"] or ""),
        *(str(each["tries"]), same, score, f"{each['cost_usd']:.6f}"),
    )


def _metric_cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    difference = "" if each["difference"] is None else f"{each['difference']:+.6g}"
    verdict = each["verdict"] if each["reason"] is None else f"{each['verdict']}: {each['reason']}"
    values = (f"{each['original']:.6g}", f"{each['replayed']:.6g}") if each["units"] else ("", "")
    return each["metric"].replace("_", " "), *values, difference, _interval(each["interval"]), verdict


def _interval(interval: Mapping[str, float] | None) -> str:
    return "" if interval is None else f"[{interval['low'] + 0.0:.6g}, {interval['high'] + 0.0:.6g}]"  # + 0.0: no -0
