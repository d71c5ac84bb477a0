"""The tables of docs/engines.md, made by asking every adapter (python -m tests.conformance.engine_tables); a test compares the two."""

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
from tests.conformance.engine_table_requests import ENGINE_REQUESTS, ENGINES, Engine, EngineRequest
from tests.support.request_translation import MEDIA


class Outcome(Struct, frozen=True):
    """What came of one ask to one engine. `sent` None: nothing was."""

    label: str
    upstream_body: Mapping[str, Any] | None = None
    dropped: tuple[str, ...] = ()


def provider_for(engine: Engine) -> Provider:
    provider = build_provider(engine.adapter, engine.adapter, engine.options, "http://127.0.0.1:1")
    return provider.at_version(engine.version)


def outcome(engine: Engine, engine_request: EngineRequest) -> Outcome:
    """By the road's own translation, in the first dialect of the engine that can say it."""
    provider = provider_for(engine)
    try:
        translated = _translate(provider, engine_request)
    except Unsupported:
        return Outcome("refused")
    except OperationNotSupported:
        return Outcome("501")
    sent = json.loads(translated.raw)
    dropped = tuple(translated.dropped)
    if translated.constraint_plan is not None:
        return Outcome(
            {"enforced": "native"}.get(translated.constraint_plan.enforcement, translated.constraint_plan.enforcement), sent, dropped
        )
    if dropped:
        return Outcome("reported", sent, dropped)
    if translated.dialect.name != engine_request.dialect or any(
        sent.get(key) != value for key, value in engine_request.body.items() if key != "model"
    ):
        return Outcome("converted", sent)
    return Outcome("native", sent)


def _translate(provider: Provider, engine_request: EngineRequest) -> TranslatedRequest:
    dialect = DIALECTS[engine_request.dialect]
    raw = json.dumps({"model": "m", **engine_request.body}).encode()
    request = dialect.parse_request(raw)
    translator = RequestTranslator(
        request, raw, dialect, MEDIA, lambda _: False, constraint=read_constraint(request.dialect, request.body), inference_id="ID"
    )
    target = Target(provider.configured_as, "m")
    first_refusal: Unsupported | None = None
    for target_dialect in translator.candidate_dialects(provider, provider.spoken_dialects):
        try:
            edited_request = translator.edit_request(provider, target) if target_dialect is dialect else None
            return edited_request or asyncio.run(translator.translate_chat(target_dialect, provider, target))
        except Unsupported as reason:
            first_refusal = first_refusal or reason
    assert first_refusal is not None
    raise first_refusal


def tables() -> str:
    return "\n".join(_tables())


def _tables() -> Iterator[str]:
    for title, engine_requests in ENGINE_REQUESTS.items():
        yield f"### {title}\n"
        yield _row(["", *[engine.title for engine in ENGINES]])
        yield _row(["---"] * (len(ENGINES) + 1))
        for engine_request in engine_requests:
            yield _row([engine_request.name, *[outcome(engine, engine_request).label for engine in ENGINES]])
        yield ""


def evidence_table() -> str:
    """Which tests hold each engine to the tables."""
    rows = (_row([engine.title, " ".join(f"`tests/{test}`" for test in engine.evidence_tests)]) for engine in ENGINES)
    return "\n".join([_row(["", "shown by"]), _row(["---"] * 2), *rows, ""])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    click.echo(tables())
    click.echo(evidence_table())
