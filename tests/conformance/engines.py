"""The tables of docs/engines.md, made by asking every adapter (python -m tests.conformance.engines); a test compares the two."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import click
from msgspec import Struct

from app.domain import Target
from app.gateway.asked import Asked, Prepared
from providers.catalogue import build
from providers.dialects.catalogue import DIALECTS
from providers.errors import NotOffered, Unsupported
from providers.guided import read_constraint
from providers.provider import Provider
from tests.conformance.engines_asked import ASKED, ENGINES, Asking, Engine
from tests.laws.asking import MEDIA


class Outcome(Struct, frozen=True):
    """What came of one ask to one engine. `sent` None: nothing was."""

    word: str
    sent: Mapping[str, Any] | None = None
    dropped: tuple[str, ...] = ()


def provider_of(engine: Engine) -> Provider:
    provider = build(engine.adapter, engine.adapter, engine.options, "http://127.0.0.1:1")
    return provider.at_version(engine.version)


def outcome(engine: Engine, asking: Asking) -> Outcome:
    """By the road's own translation, in the first dialect of the engine that can say it."""
    provider = provider_of(engine)
    try:
        prepared = _prepared(provider, asking)
    except Unsupported:
        return Outcome("refused")
    except NotOffered:
        return Outcome("501")
    sent = json.loads(prepared.raw)
    dropped = tuple(prepared.dropped)
    if prepared.guiding is not None:
        return Outcome({"enforced": "native"}.get(prepared.guiding.how, prepared.guiding.how), sent, dropped)
    if dropped:
        return Outcome("reported", sent, dropped)
    if prepared.dialect.name != asking.dialect or any(sent.get(key) != value for key, value in asking.body.items() if key != "model"):
        return Outcome("converted", sent)
    return Outcome("native", sent)


def _prepared(provider: Provider, asking: Asking) -> Prepared:
    dialect = DIALECTS[asking.dialect]
    raw = json.dumps({"model": "m", **asking.body}).encode()
    ask = dialect.open(raw)
    asked = Asked(ask, raw, dialect, MEDIA, lambda _: False, constraint=read_constraint(ask.dialect, ask.body), id="ID")
    target = Target(provider.configured_as, "m")
    refused: Unsupported | None = None
    for theirs in asked.dialects(provider, provider.spoken):
        try:
            edited = asked.edited(provider, target) if theirs is dialect else None
            return edited or asyncio.run(asked.crossed(theirs, provider, target))
        except Unsupported as reason:
            refused = refused or reason
    assert refused is not None
    raise refused


def tables() -> str:
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    for title, asks in ASKED.items():
        yield f"### {title}\n"
        yield _row(["", *[engine.title for engine in ENGINES]])
        yield _row(["---"] * (len(ENGINES) + 1))
        for asking in asks:
            yield _row([asking.name, *[outcome(engine, asking).word for engine in ENGINES]])
        yield ""


def proofs() -> str:
    """Which tests hold each engine to the tables."""
    rows = (_row([engine.title, " ".join(f"`tests/{test}`" for test in engine.proved)]) for engine in ENGINES)
    return "\n".join([_row(["", "shown by"]), _row(["---"] * 2), *rows, ""])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    click.echo(tables())
    click.echo(proofs())
