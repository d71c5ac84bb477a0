"""Users, service accounts, roles and credentials, as people read them."""

from collections.abc import Mapping
from typing import Any

import click

from app.api.rest.command import Column
from app.cli.operations.show import format_value, print_columns
from app.cli.output import print_table, printable
from app.cli.times import format_time

_ROLES = Column("roles", form="roles")
_TIMES = ("created", "used", "expires", "revoked")
_TOKENS = (Column("id"), Column("name"), *(Column(f"{name}_at", name.upper(), "time") for name in _TIMES))
_CREDENTIALS = (Column("name"), Column("key"), Column("state"), Column("updated_at", "STORED", "time"), Column("providers", "USED BY"))


def credentials(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if document["data"]:
        print_columns(_CREDENTIALS, [{**each, "state": _credential_state(each)} for each in document["data"]])
    else:
        click.echo("Nothing is stored; `narthex credentials set NAME` stores a secret for a provider.")


def warnings(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    """Prints what a dry run warns of."""
    for warning in document["warnings"]:
        click.echo(printable(f"Warning: {warning}"), err=True)


def user(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    for name in ("name", "id", "email", "issuer", "subject", "created_at", "signed_in_at"):
        click.echo(f"{name}: {printable(document[name] or '-')}")
    click.echo(f"groups: {printable(', '.join(document['groups']) or '-')}")
    click.echo(f"state: {'disabled' if document['disabled'] else 'enabled'}")
    for role in document["roles"]:
        source = "" if role["group"] is None else f", by group {role['group']}"
        click.echo(printable(f"role: {role['role']} of {_team(role['team'])}{source}"))


def created_account(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    name, roles = document["name"], format_value(document["roles"], _ROLES) if document["roles"] else "without a role"
    click.echo(printable(f"{name} is created, {roles}. `narthex service-accounts tokens create {name}` creates a token."))


def accounts_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"service_accounts": [account_shape(each, arguments) for each in document["data"]], "next": document["next"]}


def account_shape(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**document, "roles": [{"role": each["role"], "team": each["team"]} for each in document["roles"]]}


def deleted_account(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"deleted": document["name"]}


def revoked(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"revoked": document["id"]}


def created_token(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"A token of {arguments['name']}, shown only once:"), err=True)
    click.echo(document["token"])


def tokens(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if document["data"]:
        print_columns(_TOKENS, document["data"])
    else:
        click.echo(printable(f"It has none; `narthex service-accounts tokens create {arguments['name']}` creates one."))


def role_grants(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    if not document["data"]:
        click.echo("No role matches." if arguments else "No role was given yet; `narthex roles grant` gives one.")
        return
    rows = [(_receiver(each), each["role"], each["team"] or "", format_time(each["created_at"]), each["id"]) for each in document["data"]]
    print_table(("WHO", "ROLE", "TEAM", "GIVEN", "ID"), rows)
    if document["next"]:
        click.echo(f"There are more: --after {document['next']} shows the next ones.", err=True)


def given_role(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"{_receiver(document)} is {document['role']} of {_team(document['team'])}."))


def taken_role(document: Mapping[str, Any], arguments: Mapping[str, Any]) -> None:
    click.echo(printable(f"{_receiver(document)} is no longer {document['role']} of {_team(document['team'])}."))


def _credential_state(credential: Mapping[str, Any]) -> str:
    if credential["key"] is None:
        return "not stored"
    return "decryptable" if credential["decryptable"] else "not decryptable"


def _receiver(grant: Mapping[str, Any]) -> str:
    kind = next(kind for kind in ("group", "user", "service_account") if grant[kind] is not None)
    return f"{kind.replace('_', ' ')} {grant[kind]}"


def _team(team: str | None) -> str:
    return "the whole company" if team is None else f"team {team}"
