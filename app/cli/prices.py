"""narthex prices: those in force, and suggestions for models without one."""

import time

import click
import msgspec

from app.cli.sentences import Ordered
from app.cli.telling import json_option, tell_json, tell_table
from app.domain import Directory, Price
from app.insight.price_list import Suggestion, suggest
from app.insight.prices import price_of
from app.local import servers
from app.local.asking import ask
from app.local.trouble import Trouble
from app.settings import Settings
from app.store import configuration
from app.store.file import write_file

_OPENING = """\
# Suggested out of the price list that comes with Narthex. Prices change: look at the source of each, correct what differs, and then
#     narthex apply FILE
"""


@click.group(cls=Ordered)
def prices() -> None:
    """List prices, and suggest some.

    What a provider's model costs is part of the configuration ([[prices]]; docs/configuration.md): a price counts for you only once you
    have applied it.
    """


@prices.command("list")
@json_option
def list_prices(as_json: bool) -> None:
    """List the prices in force now, and what has none.

    In US dollars for a million tokens.

    \b
    Example:
      narthex prices list

    With --json: {"prices": [{"provider", "model", "input", "output", ...}], "without": [{"provider", "model"}]}, prices as in a
    configuration file; "without": models that targets name and that have no price now.
    """
    directory, now_s = _directory(), time.time()
    priced = dict.fromkeys((each.provider, each.model) for each in directory.prices)
    found = [price for provider, model in priced if (price := price_of(directory, provider, model, now_s))]
    without = [each for each in suggest(directory, now_s) if not each.has_price]
    if as_json:
        unpriced = [{"provider": each.provider, "model": each.model} for each in without]
        tell_json({"prices": [msgspec.structs.asdict(each) for each in found], "without": unpriced})
        return
    if found:
        tell_table(("PROVIDER", "MODEL", "INPUT", "OUTPUT", "CACHED", "SINCE"), [_row(each) for each in found])
    else:
        click.echo("No price is in force.")
    if without:
        click.echo("\nWithout a price (`narthex prices suggest` looks for some):")
        for each in without:
            click.echo(f"  {_name(each)}")


@prices.command("suggest")
@click.option("--provider", metavar="NAME", help="Only for models of this provider.")
@click.option("--all", "also_priced", is_flag=True, help="Also for models that have a price already.")
@json_option
def suggest_prices(provider: str | None, also_priced: bool, as_json: bool) -> None:
    """Print [[prices]] for the models that your targets name.

    Out of the list that comes with Narthex: public prices of some hosts' best-known models, each with where it was read and when.
    Prices change, and yours may be others: read and correct them before you apply them. Models are found by the provider's adapter and
    their names; a name's date (-2025-08-07, @20251001) and place (models/, us.) are overlooked where the list has the name without. What
    is not in the list, or is asked at another address than the host's, stands below as a comment.

    \b
    Examples:
      narthex prices suggest
      narthex prices suggest --provider openai > prices.toml && $EDITOR prices.toml && narthex apply prices.toml

    With --json: {"prices": [{"provider", "model", "input", ...}], "none": [{"provider", "model", "why"}]}.
    """
    directory = _directory()
    if provider is not None and provider not in directory.providers:
        raise Trouble(f"There is no provider {provider!r}. There are: {', '.join(directory.providers) or 'none yet'}.")
    told = suggest(directory, time.time(), provider)
    found = [each for each in told if each.prices and (also_priced or not each.has_price)]
    none = [(each, _why(each)) for each in told if each not in found]
    if as_json:
        missing = [{"provider": each.provider, "model": each.model, "why": why} for each, why in none]
        tell_json({"prices": [msgspec.structs.asdict(price) for each in found for price in each.prices], "none": missing})
        return
    click.echo(_OPENING if found else "# There is nothing to suggest.")
    for each in found:
        if each.found_as != each.model:
            click.echo(f"# {_name(each)}: what the list says of {each.found_as}.")
        click.echo(write_file(Directory(0, "", {}, {}, prices=each.prices), {}))
    if none:
        click.echo("# Not suggested:")
        for each, why in none:
            click.echo(f"#   {_name(each)}: {why}")


def _directory() -> Directory:
    return ask(servers.found(Settings.read()).database_url, configuration.current)


def _row(price: Price) -> tuple[str, ...]:
    cached = "" if price.cached_input is None else f"{price.cached_input:g}"
    return price.provider, price.model, f"{price.input:g}", f"{price.output:g}", cached, price.since or ""


def _why(suggestion: Suggestion) -> str:
    return "it has a price already" if suggestion.has_price else suggestion.why


def _name(suggestion: Suggestion) -> str:
    return f"{suggestion.provider}/{suggestion.model}"  # both are printable, so on one line: the configuration takes no others
