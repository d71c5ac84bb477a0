"""Keys and teams, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import print_columns
from app.cli.output import format_drop, printable
from app.cli.times import format_duration, format_time
from app.process.plain_numbers import plain_number

_KEYS = (
    *(Column("prefix", "KEY"), Column("team"), Column("name"), Column("created_at", "CREATED", "time"), Column("state")),
    *(Column("permissions"), Column("priority", null="team's"), Column("drop", "MAY DROP")),
)
_RESTRICTIONS = {"models": "models", "routes": "routes", "networks": "from"}


def keys(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if document["data"]:
        rows = [{**each, "state": _key_state(each), "permissions": _permissions(each)} for each in document["data"]]
        print_columns(_KEYS, rows)
    else:
        of_team = f" of team {arguments['team']}" if "team" in arguments else ""
        kind, hint = ("", "") if "state" in arguments else ("valid ", " (--all shows the others)")
        click.echo(printable(f"There is no {kind}key{of_team}{hint}."))
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def created_key(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"A key for {document['team']}, shown only once:"), err=True)
    click.echo(document["key"])


def changed_key(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"changed": document["prefix"], **{name: value for name, value in document.items() if name in arguments and name != "prefix"}}


def revoked_key(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"revoked": document["prefix"]}


def rotated_key(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    overlap_s = arguments["overlap_s"]
    overlap = f"stays valid for {format_duration(overlap_s)}" if overlap_s else "is no longer valid"
    click.echo(f"The new key, shown only once; {arguments['prefix']} {overlap}:", err=True)
    click.echo(document["key"])


def rotated_key_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    new = {name: document[name] for name in ("key", "prefix")}
    return {**new, "replaces": arguments["prefix"], "overlap_s": arguments["overlap_s"]}


def set_team(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    may_drop, search = format_drop(document["drop"]) or "nothing", "on" if document["search"] else "off"
    settings = f"content {document['content']}, may drop {may_drop}, priority {document['priority']}, search {search}"
    click.echo(printable(f"Team {document['name']}: {settings}."))
    parts = [f"{name} {', '.join(document[name])}" for name in _RESTRICTIONS if document[name] is not None]
    parts += [f"limits {', '.join(map(_limit, document['limits']))}"] if document["limits"] else []
    parts += ["fallbacks that they may use"] if document["fallbacks"] == "allowed" else []
    if parts:
        click.echo(printable(f"Its keys are held to {'; '.join(parts)}."))


def _limit(limit: Mapping[str, Any]) -> str:
    of_model = f" of {limit['model']}" if "model" in limit else ""
    per = f" per {limit['per']}" if "per" in limit else ""
    return f"{plain_number(limit['amount'])} {limit['resource']}{per}{of_model}"


def _key_state(key: Mapping[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {format_time(key['revoked_at'])}"
    if key["expires_at"] is None:
        return "works"
    state = f"{'until' if key['state'] == 'valid' else 'expired'} {format_time(key['expires_at'])}"
    return f"{state}, then {key['replaced_by']}" if key["replaced_by"] else state


def _permissions(key: Mapping[str, Any]) -> str:
    parts = [f"{label} {', '.join(key[name])}" for name, label in _RESTRICTIONS.items() if key[name] is not None]
    return "; ".join([*(["admin"] if key["admin"] else []), *parts]) or "everything"
