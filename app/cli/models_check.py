"""narthex models check: lists of prices and rules that others keep, compared with what is known here."""

import time
from pathlib import Path

import click
import httpx2

from app.billing.models_check import Difference, check_configuration, compare_list, sort_differences
from app.billing.public_lists import ListedModel, UnreadableList, read_list
from app.cli.output import json_option, print_json, print_table, printable
from app.cli.store_query import query_store
from app.store.configuration import configuration
from app.supervisor.machine.errors import OperatorError

# LiteLLM's map has 4 MB in 2026-11.
_MAX_BYTES = 64 * 1024 * 1024
_TIMEOUT_S = 60.0
_MAX_SHOWN = 50


@click.command("check")
@click.option("--against", "sources", multiple=True, metavar="FILE|URL", help="A list to compare with; may be given several times.")
@click.option("--provider", metavar="NAME", help="Only of this provider, as the price list names it; of lists without one: whose they are.")
@click.option("--configured/--no-configured", default=True, help="Look at the models of the configuration, too.")
@json_option
def check_models(sources: tuple[str, ...], provider: str | None, configured: bool, as_json: bool) -> None:
    """Compare prices and rules of models with lists that others keep.

    A list is LiteLLM's map of prices, genai-prices, models.dev, or what GET /v1/models (OpenAI, Anthropic) or /v1/language-models (xAI)
    answers; which one it is shows from its content. Printed is what is new or different, and which models of the configuration have no
    price, or no rule that names their version. Nothing is changed. Exit status 1: there are differences.

    \b
    Examples:
      narthex models check --against prices.json --provider anthropic
      narthex models check --against https://models.dev/api.json --no-configured

    With --json: {"differences": [{"kind", "provider", "model", "field", "ours", "theirs", "source"}]}; kinds are new, price, rule,
    unpriced and unknown rules.
    """
    if not sources and not configured:
        raise click.UsageError("Name a list with --against, or leave --no-configured out.")
    now_s = time.time()
    only = None if provider is None else frozenset({provider})
    differences: list[Difference] = []
    for source in sources:
        format, listed = _read_source(source, provider)
        differences += compare_list(source, listed, now_s, only, has_all_prices=format not in ("openai", "anthropic"))
    if configured:
        differences += check_configuration(query_store(configuration.read_current), now_s)
    ordered = sort_differences(differences)
    if as_json:
        print_json({"differences": ordered})
    elif ordered:
        _print(ordered)
    else:
        click.echo("No differences.")
    if ordered:
        raise SystemExit(1)


def _read_source(source: str, provider: str | None) -> tuple[str, list[ListedModel]]:
    raw = _download(source) if source.startswith(("http://", "https://")) else _read_file(source)
    try:
        return read_list(raw, provider)
    except UnreadableList as fault:
        raise OperatorError(f"{source} cannot be compared with: {fault}.") from None


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except OSError as fault:
        raise OperatorError(f"{path} cannot be read: {fault.strerror or fault}.") from None
    _check_size(raw, path)
    return raw


def _download(url: str) -> bytes:
    deadline_s = time.monotonic() + _TIMEOUT_S
    received = bytearray()
    try:
        with httpx2.stream("GET", url, timeout=_TIMEOUT_S, follow_redirects=True) as response:
            if response.status_code != 200:
                raise OperatorError(f"{url} answers with status {response.status_code}.")
            for block in response.iter_bytes():
                received += block
                _check_size(received, url)
                if time.monotonic() > deadline_s:
                    raise OperatorError(f"{url} took longer than {_TIMEOUT_S:.0f} seconds.")
    except (httpx2.HTTPError, httpx2.InvalidURL) as fault:
        raise OperatorError(f"{url} cannot be read: {fault}.") from None
    return bytes(received)


def _check_size(raw: bytes | bytearray, source: str) -> None:
    if len(raw) > _MAX_BYTES:
        raise OperatorError(f"{source} is larger than {_MAX_BYTES // 1024 // 1024} MiB: it is no list of models.")


def _print(differences: list[Difference]) -> None:
    for kind in dict.fromkeys(each.kind for each in differences):
        of_kind = [each for each in differences if each.kind == kind]
        rows = [(each.kind, each.provider, each.model, each.field or "", each.ours or "-", each.theirs or "-") for each in of_kind]
        print_table(("KIND", "PROVIDER", "MODEL", "FIELD", "OURS", "THEIRS"), [tuple(map(printable, row)) for row in rows[:_MAX_SHOWN]])
        if len(rows) > _MAX_SHOWN:
            click.echo(f"... and {len(rows) - _MAX_SHOWN:,} more of this kind; --json has all.")
