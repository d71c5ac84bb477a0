"""Erasures, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.cli.output import print_table, printable
from app.cli.times import format_time


def listed(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("Nothing was erased yet.")
        return
    print_table(("ID", "OF", "TEAM", "REQUESTED", "BY", "STATUS", "RECORDS", "REFERENCE"), [_cells(each) for each in document["data"]])
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def expected(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """How much a dry run would erase."""
    [change] = document["changes"]
    kind = next(kind for kind in ("end_user", "tag", "episode_id") if kind in arguments)
    name, _, value = arguments[kind].partition("=") if kind == "tag" else ("", "", arguments[kind])
    whose = {"end_user": "the end user", "tag": f"the tag {name} with the value", "episode_id": "the episode"}[kind]
    in_team = f" in team {arguments['team']}" if "team" in arguments else ""
    records = f"{change['after']['expected_records']:,} records of {whose} {value}{in_team}"
    click.echo(printable(f"There are about {records}. What was written in them is erased for good."), err=True)


def shown(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    in_team = "" if document["team"] is None else f", team {document['team']}"
    click.echo(printable(f"of: {_of(document)}{in_team}"))
    click.echo(f"hash: {document['hash']}")
    click.echo(printable(f"requested: {format_time(document['requested_at'])} by {document['requested_by']}"))
    step = f" (step: {document['step']})" if document["step"] else f" since {format_time(document['completed_at'])}"
    click.echo(f"status: {document['status']}{step}")
    for name, count in document["counts"].items():
        click.echo(f"{name.replace('_', ' ')}: {count:,}")
    if document["error"]:
        click.echo(f"last error: {printable(document['error'])}; tried again at {document['continues_at']}")
    if document["spools_behind"]:
        click.echo(f"{document['spools_behind']} machines have not reported since: their records are erased as they are stored.")


def verified(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    print_table(("STORE", "LEFT"), [(store.replace("_", " "), f"{count:,}") for store, count in document["left"].items()])
    click.echo(f"{document['days']:,} days were searched. The erasure is {document['status']}.")
    if document["inferences"]:
        click.echo(f"Some of the inferences that are left: {', '.join(document['inferences'][:5])}")
    if document["matches"] is not None:
        click.echo("It is about this one." if document["matches"] else "It is about another one.")


def is_left(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    return any(document["left"].values()) or document["matches"] is False


def _cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    requested = (format_time(each["requested_at"]), each["requested_by"])
    erased = f"{each['counts'].get('inferences', 0):,}"
    return each["id"], _of(each), each["team"] or "", *requested, each["status"], erased, each["reference"] or ""


def _of(erasure: Mapping[str, Any]) -> str:
    return {"end_user": "an end user", "tag": f"the tag {erasure['tag']}", "episode": "an episode"}[erasure["kind"]]
