"""The manual of the operations, made from their data; docs/engines/operations.md holds it, and a test compares the two."""

from collections.abc import Iterator

from providers.operations.catalogue import OFFERS
from providers.operations.operation import Offer, Operation


def operations_manual() -> str:
    """Markdown: a table for each engine, and why it cannot be told what others can."""
    return "\n\n".join(f"### {engine}\n\n" + "\n\n".join(_parts(offer)) for engine, offer in OFFERS.items())


def _parts(offer: Offer) -> Iterator[str]:
    if offer.operations:
        rows = [
            f"| `{name}` | {_call(operation)} | {_arguments(operation)} | {_needs(operation)} |"
            for name, operation in offer.operations.items()
        ]
        yield "\n".join(["| operation | the engine's call | arguments | |", "|---|---|---|---|", *rows])
    without: dict[str, list[str]] = {}
    for name, why in offer.without.items():
        without.setdefault(why, []).append(f"`{name}`")
    if without:
        yield "\n".join(f"- {', '.join(names)}: {why}" for why, names in without.items())


def _call(operation: Operation) -> str:
    return " or ".join(f"`{operation.method} {path}`" for path in operation.paths)


def _arguments(operation: Operation) -> str:
    told = [f"`{name}`" if argument.required else f"`{name}`?" for name, argument in operation.arguments.items()]
    return ", ".join([*told, *(["any field of the call"] if operation.open else [])])


def _needs(operation: Operation) -> str:
    needs = list(dict.fromkeys(operation.needs.values()))
    told = [*needs, *(["`confirm`: true"] if operation.confirm else []), *(["one endpoint"] if operation.once else [])]
    return "; ".join(told)
