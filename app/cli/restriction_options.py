"""Options that restrict what a key, or all keys of a team, may be used for: --model, --route, --network, and those that remove them."""

import ipaddress
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
from msgspec import UNSET

F = TypeVar("F", bound=Callable[..., Any])


class _Network(click.ParamType[str]):
    """An address, or a network in CIDR notation."""

    name = "network"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(ipaddress.ip_network(str(value)))
        except ValueError as fault:
            self.fail(f"{fault}; write it as 10.0.0.0/8 or 2001:db8::/32.", param, ctx)


def restriction_options(subject: str) -> Callable[[F], F]:
    """The options that restrict networks, routes and models. `subject` is whom the help speaks of, such as "it"."""

    def add(command: F) -> F:
        network_help = f"A network that {subject} may be used from, such as 10.0.0.0/8. Can be repeated."
        route_help = f"A route that {subject} may use, such as /v1/chat/completions or /v1/*. Can be repeated."
        model_help = f"A model that {subject} may use; * at the end stands for anything. Can be repeated."
        command = click.option("--network", "networks", multiple=True, type=_Network(), help=network_help)(command)
        command = click.option("--route", "routes", multiple=True, help=route_help)(command)
        return click.option("--model", "models", multiple=True, help=model_help)(command)

    return add


def unrestricting_options(command: F) -> F:
    for option in (
        click.option("--any-network", is_flag=True, help="Allow every network."),
        click.option("--any-route", is_flag=True, help="Allow every route."),
        click.option("--any-model", is_flag=True, help="Allow every model."),
    ):
        command = option(command)
    return command


def read_restrictions(
    models: Sequence[str], routes: Sequence[str], networks: Sequence[str], *, any_model: bool, any_route: bool, any_network: bool
) -> dict[str, Any]:
    """Returns, for each field, the change that these options ask for: UNSET, None for no restriction, or the list."""
    return {
        "models": read_change("--model", models, "--any-model", any_model),
        "routes": read_change("--route", routes, "--any-route", any_route),
        "networks": read_change("--network", networks, "--any-network", any_network),
    }


def read_change(option: str, value: Any, reset_option: str, is_reset: bool) -> Any:
    """UNSET: neither option was given; None: the value is reset."""
    is_given = value is not UNSET and value not in ((), None)
    if is_given and is_reset:
        raise click.UsageError(f"{option} and {reset_option} exclude each other.")
    if is_reset:
        return None
    return value if is_given else UNSET
