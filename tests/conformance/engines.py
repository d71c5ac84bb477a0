"""The tables of docs/engines.md, made by asking every adapter (python -m tests.conformance.engines); a test compares the two."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import click
from msgspec import Struct

from app.domain import Target
from app.gateway.request_translation.translator import RequestTranslator, TranslatedRequest
from providers.adapters.provider import Provider
from providers.canonical.errors import OperationNotSupported, Unsupported
from providers.catalogue import build_provider
from providers.dialects.catalogue import DIALECTS
from providers.structured_output import read_constraint
from tests.conformance.engines_asked import ASKED, ENGINES, Asking, Engine
from tests.laws.asking import MEDIA


class Outcome(Struct, frozen=True):
    """What came of one ask to one engine. `sent` None: nothing was."""

    word: str
    sent: Mapping[str, Any] | None = None
    dropped: tuple[str, ...] = ()


def provider_of(engine: Engine) -> Provider:
    provider = build_provider(engine.adapter, engine.adapter, engine.options, "http://127.0.0.1:1")
    return provider.at_version(engine.version)


def outcome(engine: Engine, asking: Asking) -> Outcome:
    """By the road's own translation, in the first dialect of the engine that can say it."""
    provider = provider_of(engine)
    try:
        prepared = _prepared(provider, asking)
    except Unsupported:
        return Outcome("refused")
    except OperationNotSupported:
        return Outcome("501")
    sent = json.loads(prepared.raw)
    dropped = tuple(prepared.dropped)
    if prepared.constraint_plan is not None:
        return Outcome(
            {"enforced": "native"}.get(prepared.constraint_plan.enforcement, prepared.constraint_plan.enforcement), sent, dropped
        )
    if dropped:
        return Outcome("reported", sent, dropped)
    if prepared.dialect.name != asking.dialect or any(sent.get(key) != value for key, value in asking.body.items() if key != "model"):
        return Outcome("converted", sent)
    return Outcome("native", sent)


def _prepared(provider: Provider, asking: Asking) -> TranslatedRequest:
    dialect = DIALECTS[asking.dialect]
    raw = json.dumps({"model": "m", **asking.body}).encode()
    ask = dialect.parse_request(raw)
    asked = RequestTranslator(
        ask, raw, dialect, MEDIA, lambda _: False, constraint=read_constraint(ask.dialect, ask.body), inference_id="ID"
    )
    target = Target(provider.configured_as, "m")
    refused: Unsupported | None = None
    for theirs in asked.candidate_dialects(provider, provider.spoken_dialects):
        try:
            edited = asked.edit_request(provider, target) if theirs is dialect else None
            return edited or asyncio.run(asked.translate_chat(theirs, provider, target))
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
