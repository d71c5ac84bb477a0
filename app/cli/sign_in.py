"""narthex login, logout and whoami: sign in to the admin API of a gateway, as the company's issuer knows you."""

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec

from app.cli.admin_api import AdminAccess, find_access, raise_error, send
from app.cli.errors import CommandError
from app.cli.output import json_option, print_json, printable, progress
from app.cli.session_file import CliSession, forget_session, load_session, save_session
from app.settings import Settings
from app.supervisor.machine.gateway_url import reachable_admin_url

_PATH = "/admin/v1/sign-in/device"
_TRY_AGAIN = (429, 502, 503)


@click.command()
@click.argument("url", required=False)
@json_option
def login(url: str | None, as_json: bool) -> None:
    """Sign in to the gateway at URL, in a browser.

    Without URL: the gateway of NARTHEX_PUBLIC_URL, else the one of this home. It prints an address and a code; the browser may be on
    another machine. docs/sign-in.md says how a gateway is prepared for this.

    The session is kept in ~/.config/narthex/session.json (XDG_CONFIG_HOME), which only you can read. Commands that use the admin API
    send it where the home has no admin key.

    \b
    Example:
      narthex login https://narthex.example.com

    With --json: {"name", "url", "expires_at"}; the address and the code are on standard error.
    """
    settings = Settings.read()
    gateway = AdminAccess(_check_url(url) if url else str(settings.public_url) or reachable_admin_url(settings), "")
    begun = send(settings, gateway, "POST", _PATH)
    if begun.status != 200:
        raise_error(gateway, begun)
    code, link = str(begun.document["user_code"]), begun.document.get("verification_uri_complete")
    if link is None:
        text = f"Open {begun.document['verification_uri']} in a browser, and enter the code {code}."
    else:
        text = f"Open {link} in a browser, and check that it shows the code {code}."
    click.echo(printable(text), err=True)
    with progress("Waiting until you have signed in"):
        session = _wait_for_session(settings, gateway, begun.document)
    save_session(session)
    if as_json:
        print_json({"name": session.name, "url": session.url, "expires_at": session.expires_at})
    else:
        click.echo(printable(f"You are signed in to {session.url} as {session.name}, until {_minute(session.expires_at)} at most."))


@click.command()
@json_option
def logout(as_json: bool) -> None:
    """End the session that `narthex login` began.

    \b
    Example:
      narthex logout

    With --json: {"signed_out": true, or false if there was no session}.
    """
    session = load_session()
    if session is not None:
        access = AdminAccess(session.url, session.token, is_session=True)
        forget_session()
        try:
            ended = send(Settings.read(), access, "POST", "/admin/v1/sign-out")
        except CommandError as fault:
            raise CommandError(
                f"The session was forgotten here, but the gateway could not end it: {fault.format_message()} It ends by itself at"
                f" {_minute(session.expires_at)}."
            ) from fault
        if ended.status not in (200, 401):  # 401: it had ended before
            raise_error(access, ended)
    if as_json:
        print_json({"signed_out": session is not None})
    else:
        click.echo("You are signed out." if session is not None else "You were not signed in.")


@click.command()
@json_option
def whoami(as_json: bool) -> None:
    """Show as whom commands use the admin API, and with which roles.

    \b
    Example:
      narthex whoami

    With --json: {"kind", "id", "name", "roles": [{"role", "team" or null}], "permissions", "team_permissions", "url"}.
    """
    settings = Settings.read()
    access = find_access(settings)
    shown = send(settings, access, "GET", "/admin/v1/session")
    if shown.status != 200:
        raise_error(access, shown)
    if as_json:
        print_json({**shown.document, "url": access.url})
        return
    who = shown.document
    by = "a user" if who["kind"] == "user" else "the admin key of this home" if who["kind"] == "key" else "a service account"
    click.echo(printable(f"{who['name']} ({by}) at {access.url}: {_roles(who['roles'])}"))


def _wait_for_session(settings: Settings, gateway: AdminAccess, begun: Mapping[str, Any]) -> CliSession:
    body = msgspec.json.encode({"device_code": begun["device_code"]})
    interval_s, deadline = float(begun["interval"]), time.monotonic() + float(begun["expires_in"])
    while time.monotonic() < deadline:
        time.sleep(interval_s)
        polled = send(settings, gateway, "POST", f"{_PATH}/token", body)
        if polled.status == 200:
            return CliSession(gateway.url, polled.document["token"], polled.document["name"], polled.document["expires_at"])
        if polled.status == 202:
            interval_s = max(interval_s, float(polled.document["interval"]))  # a slower pace stays: RFC 8628, section 3.5
        elif polled.status not in _TRY_AGAIN:
            raise_error(gateway, polled)
    raise CommandError("Nobody has signed in in time: begin again.")


def _check_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"{url!r} is not an address such as https://narthex.example.com.")
    return f"{parts.scheme}://{parts.netloc}"


def _roles(roles: Sequence[Mapping[str, Any]]) -> str:
    shown = [each["role"] if each["team"] is None else f"{each['role']} of team {each['team']}" for each in roles]
    return ", ".join(shown) or "no role, so an administrator must give you one"


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ") + " UTC"
