"""narthex prices: the prices in force, and suggestions for models without one."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import click
import msgspec

from app.billing.cost import format_usd
from app.billing.price_index import find_price
from app.billing.price_list import Suggestion, suggest_prices_for_targets
from app.billing.recompute import Recomputed, recompute_all
from app.cli.errors import OrderedGroup
from app.cli.output import json_option, print_json, print_table
from app.cli.store_query import query_store
from app.cli.times import PastMomentParam
from app.domain.prices import Price, PriceStep
from app.domain.snapshot import Snapshot
from app.process.plain_numbers import plain_number
from app.recording.writes.cost_changes import InferenceRange
from app.store.configuration import configuration
from app.store.configuration.config_file import write_file
from app.store.postgres.audit_log import command_author
from app.supervisor.machine.errors import OperatorError

_HEADER = """\
# Suggested from the price list that comes with Narthex. Prices change: check the source of each, correct what differs, and then
#     narthex apply FILE
"""


@click.group(cls=OrderedGroup)
def prices() -> None:
    """List prices, and suggest missing ones.

    Prices are part of the configuration ([[prices]]; docs/configuration.md): a suggested price counts only once you have applied it.
    """


@prices.command("list")
@json_option
def list_prices(as_json: bool) -> None:
    """List the prices in force now, and models without one.

    Prices are in US dollars for a million tokens, or for an hour of a request at an engine whose time is priced.

    \b
    Example:
      narthex prices list

    With --json: {"prices": [{"provider", "model", "input", "output", ...}], "unpriced": [{"provider", "model"}]}, prices as in a
    configuration file; "unpriced": models that targets name and that have no price now.
    """
    snapshot, now_s = query_store(configuration.read_current), time.time()
    priced = dict.fromkeys((each.provider, each.model) for each in snapshot.prices)
    in_force = [price for provider, model in priced if (price := find_price(snapshot, provider, model, now_s))]
    unpriced = [each for each in suggest_prices_for_targets(snapshot, now_s) if not each.has_price]
    if as_json:
        unpriced_models = [{"provider": each.provider, "model": each.model} for each in unpriced]
        print_json({"prices": [msgspec.structs.asdict(each) for each in in_force], "unpriced": unpriced_models})
        return
    if in_force:
        print_table(("PROVIDER", "MODEL", "INPUT", "OUTPUT", "CACHED", "SINCE"), [row for each in in_force for row in _price_rows(each)])
    else:
        click.echo("No price is in force.")
    if unpriced:
        click.echo("\nWithout a price (`narthex prices suggest` looks for some):")
        for each in unpriced:
            click.echo(f"  {_target_name(each)}")


@prices.command("recompute")
@click.option("--since", required=True, type=PastMomentParam(), metavar="TIME", help="Of requests since then: 2026-11-01, 7d.")
@click.option("--until", type=PastMomentParam(), metavar="TIME", help="Of requests received before; without it, now.")
@click.option("--model", help="Only of requests for this model.")
@click.option("--provider", metavar="NAME", help="Only what this provider was charged for.")
@click.option("--team", help="Only of this team.")
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@json_option
def recompute(
    since: datetime, until: datetime | None, model: str | None, provider: str | None, team: str | None, dry_run: bool, as_json: bool
) -> None:
    """Compute the costs of recorded requests again, at the prices that are configured now.

    Each request at the price of its day (`since` of a price). Sums of usage change with it, the history of each cost is kept, and the
    audit log has the change. It works in chunks, each complete in itself: what was interrupted goes on when the command is repeated.
    Requests without a price now, and old ones of which too little was recorded, keep their cost. What limits have counted stays.

    \b
    Examples:
      narthex prices recompute --since 2026-11-01 --provider openai --dry-run
      narthex prices recompute --since 2026-11-01 --until 2026-12-01

    With --json: {"run", "matched", "changed", "skipped", "before_microusd", "after_microusd", "dry_run"}.
    """
    end = until or datetime.now(UTC)
    if since >= end:
        raise click.BadParameter("it must be before --until", param_hint="--since")
    inferences = InferenceRange(since, end, None, model, provider, team)

    async def run_chunks(database_url: str) -> Recomputed:
        return await recompute_all(database_url, command_author(), inferences, dry_run=dry_run)

    done = query_store(run_chunks)
    if as_json:
        fields = {name: value for name, value in msgspec.structs.asdict(done).items() if name != "next"}
        print_json({**fields, "dry_run": dry_run})
        return
    verb = "would change" if dry_run else "changed"
    before, after = format_usd(done.before_microusd).decode(), format_usd(done.after_microusd).decode()
    click.echo(f"{done.changed:,} of {done.matched:,} requests {verb}: from {before} to {after} US dollars together.")
    if done.skipped:
        click.echo(f"{done.skipped:,} keep their cost: they have no price now, or too little was recorded of them.")


@prices.command("suggest")
@click.option("--provider", metavar="NAME", help="Only for models of this provider.")
@click.option("--all", "also_priced", is_flag=True, help="Also for models that have a price already.")
@json_option
def suggest_prices(provider: str | None, also_priced: bool, as_json: bool) -> None:
    """Print [[prices]] for the models that your targets name.

    They come from the list in Narthex: public prices of some hosts' best-known models, each with its source and date. Prices change, and
    yours may differ: check and correct them before you apply them. Models are found by the provider's adapter and their names; a date
    (-2025-08-07, @20251001) or prefix (models/, us.) in a name is ignored if the list has the name without it. Models that are not in the
    list, or whose provider has another address than the host, are listed below in comments.

    \b
    Examples:
      narthex prices suggest
      narthex prices suggest --provider openai > prices.toml && $EDITOR prices.toml && narthex apply prices.toml

    With --json: {"prices": [{"provider", "model", "input", ...}], "skipped": [{"provider", "model", "reason"}]}.
    """
    snapshot = query_store(configuration.read_current)
    if provider is not None and provider not in snapshot.providers:
        raise OperatorError(f"There is no provider {provider!r}. There are: {', '.join(snapshot.providers) or 'none yet'}.")
    suggestions = suggest_prices_for_targets(snapshot, time.time(), provider)
    suggested = [each for each in suggestions if each.prices and (also_priced or not each.has_price)]
    skipped = [(each, _skip_reason(each)) for each in suggestions if each not in suggested]
    if as_json:
        reasons = [{"provider": each.provider, "model": each.model, "reason": reason} for each, reason in skipped]
        print_json({"prices": [msgspec.structs.asdict(price) for each in suggested for price in each.prices], "skipped": reasons})
        return
    click.echo(_HEADER if suggested else "# There is nothing to suggest.")
    for each in suggested:
        if each.listed_as != each.model:
            click.echo(f"# {_target_name(each)}: the list's price for {each.listed_as}.")
        click.echo(write_file(Snapshot(0, "", {}, {}, prices=each.prices), {}))
    if skipped:
        click.echo("# Not suggested:")
        for each, reason in skipped:
            click.echo(f"#   {_target_name(each)}: {reason}")


def _price_rows(price: Price) -> Iterator[tuple[str, ...]]:
    """The price, and a row for each of its steps."""
    of, since = (price.provider, price.model), price.since or ""
    if price.gpu is not None:
        share = f"{price.gpu.usd_per_hour * price.gpu.gpus / price.gpu.concurrency:g} an hour"
        yield *of, share, share, "", since
        return
    yield *of, *_amounts(price), since
    for step in price.steps:
        yield price.provider, f"{price.model}, above {step.above:,}", *_amounts(step), since


def _amounts(price: Price | PriceStep) -> tuple[str, str, str]:
    return _amount(price.input), _amount(price.output), _amount(price.cached_input)


def _amount(usd: float | None) -> str:
    return "" if usd is None else plain_number(usd)


def _skip_reason(suggestion: Suggestion) -> str:
    return "it has a price already" if suggestion.has_price else suggestion.reason


def _target_name(suggestion: Suggestion) -> str:
    return f"{suggestion.provider}/{suggestion.model}"  # on one line: the configuration accepts only printable names
