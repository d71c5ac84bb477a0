"""The operator's option `drop`: what it adds to the caller's choice, for which target, and how a caller overrides it."""

import asyncio
import json
from typing import Any

import pytest

from app.domain.callers import DroppableFields
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.domain.snapshot import Snapshot
from app.gateway.fleet.operator_drops import OperatorDrops, extend_may_drop, read_operator_drops
from app.gateway.request.caller_options import droppable_fields, overrides_operator_drops
from app.gateway.request_translation.candidate_dialects import candidate_dialects
from app.gateway.request_translation.dropped_fields import extended_drops
from app.gateway.request_translation.edit_request import edit_request
from app.gateway.request_translation.recipient import Recipient, TargetTerms
from app.gateway.request_translation.source_request import SourceRequest
from app.gateway.request_translation.translate_chat import translate_chat
from app.store.configuration.snapshots import build_snapshot
from providers.canonical.errors import InvalidRequest, Unsupported
from providers.catalogue import DIALECTS, build_provider
from tests.support.request_translation import MEDIA, drop_nothing, make_source

FIELDS = ("logit_bias", "seed", "stop", "tools")
TARGET = Target("p", "x")


def configured(models: dict[str, DroppableFields], providers: dict[str, DroppableFields]) -> Snapshot:
    return build_snapshot(
        1,
        {name: ProviderConfig("openai", drop=drop) for name, drop in providers.items()},
        {name: ModelConfig((TARGET,), drop=drop) for name, drop in models.items()},
    )


@pytest.mark.parametrize(
    ("header", "requested", "serving", "provider", "droppable"),
    [
        (None, "plain", "plain", "plain", set[str]()),
        (None, "careful", "careful", "plain", {"seed"}),
        (None, "plain", "plain", "host", {"logit_bias"}),
        (b"stop", "careful", "careful", "host", {"seed", "logit_bias", "stop"}),
        (b"stop", "plain", "plain", "plain", {"stop"}),
        (None, "plain", "careful", "plain", {"seed"}),
        (None, "careful", "plain", "plain", {"seed"}),
        (None, "careful", "lenient", "plain", set(FIELDS)),
        (None, "lenient", "lenient", "host", set(FIELDS)),
        (b"seed", "plain", "plain", "lenient", set(FIELDS)),
        (b"all", "careful", "careful", "plain", set(FIELDS)),
    ],
)
def test_field_may_be_dropped_that_the_caller_a_model_or_the_provider_names(
    header: bytes | None, requested: str, serving: str, provider: str, droppable: set[str]
):
    drops = read_operator_drops(
        configured({"plain": (), "careful": ("seed",), "lenient": "all"}, {"plain": (), "host": ("logit_bias",), "lenient": "all"})
    )
    assert drops is not None
    headers = {} if header is None else {b"x-narthex-drop": header}
    may_drop = drops.extend(droppable_fields(headers), (requested, serving), provider)
    assert {field for field in FIELDS if may_drop(field)} == droppable


@pytest.mark.parametrize(
    ("header", "of_caller", "model", "droppable"),
    [
        (None, ("stop",), "plain", {"stop"}),
        (b"tools", ("stop",), "careful", {"stop", "tools", "seed"}),
        (None, "all", "careful", set(FIELDS)),
        (None, ("stop",), "lenient", set(FIELDS)),
    ],
)
def test_choice_for_the_caller_adds_to_those_for_the_target(
    header: bytes | None, of_caller: DroppableFields, model: str, droppable: set[str]
):
    drops = read_operator_drops(configured({"plain": (), "careful": ("seed",), "lenient": "all"}, {"p": ()}))
    assert drops is not None
    may_drop = extend_may_drop(droppable_fields({} if header is None else {b"x-narthex-drop": header}), [of_caller])
    assert {field for field in FIELDS if drops.extend(may_drop, (model, model), "p")(field)} == droppable


def test_configuration_without_drop_has_nothing_to_look_up():
    assert read_operator_drops(configured({"m": ()}, {"p": ()})) is None
    assert read_operator_drops(configured({"m": ()}, {"p": ("seed",)})) is not None
    assert read_operator_drops(configured({"m": "all"}, {"p": ()})) is not None


@pytest.mark.parametrize(
    ("header", "overrides"), [(None, False), (b"none", True), (b" none ", True), (b"all", False), (b"seed", False), (b"", False)]
)
def test_only_none_overrides_the_operator(header: bytes | None, overrides: bool):
    assert overrides_operator_drops({} if header is None else {b"x-narthex-drop": header}) is overrides


def test_none_lets_nothing_go():
    assert not any(droppable_fields({b"x-narthex-drop": b"none"})(field) for field in (*FIELDS, "none"))


@pytest.mark.parametrize("header", [b"none, seed", b"all,none", b"none,"])
def test_none_beside_others_is_refused(header: bytes):
    with pytest.raises(InvalidRequest, match="`none` cannot stand beside others"):
        droppable_fields({b"x-narthex-drop": header})


def source_for(dialect: str, drops: OperatorDrops, **fields: Any) -> SourceRequest:
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()
    caller_dialect = DIALECTS[dialect]
    return make_source(caller_dialect.parse_request(raw), raw, caller_dialect, MEDIA, drop_nothing, operator_drops=drops)


def operator_terms(source: SourceRequest, provider: str) -> TargetTerms:
    return TargetTerms(may_drop=extended_drops(source.terms, ("m",), provider))


def test_choice_for_one_target_does_not_reach_the_next():
    drops = OperatorDrops({}, {"first": ("chat_template",)})
    source = source_for("openai_chat", drops, chat_template="x")
    provider = build_provider("openai", "p", {}, "http://127.0.0.1:9")
    translated = edit_request(source, Recipient(provider, TARGET, operator_terms(source, "first")))
    assert translated is not None and translated.dropped == ["chat_template"] and b"chat_template" not in translated.raw
    with pytest.raises(Unsupported, match="`chat_template`"):
        edit_request(source, Recipient(provider, TARGET, operator_terms(source, "second")))


@pytest.mark.parametrize(("field", "is_served"), [("top_k", True), ("k", False)])
def test_fields_go_by_the_callers_names(field: str, is_served: bool):
    source = source_for("anthropic_messages", OperatorDrops({"m": (field,)}, {}), top_k=5, max_tokens=5)
    provider = build_provider("openai", "p", {"dialects": ["openai_responses"]}, "http://127.0.0.1:9")
    (dialect,) = candidate_dialects(source, provider, ["openai_responses"])
    translation = translate_chat(source, dialect, Recipient(provider, TARGET, operator_terms(source, "p")))
    if is_served:
        assert asyncio.run(translation).dropped == ["top_k"]
    else:
        with pytest.raises(Unsupported, match="`top_k`"):
            asyncio.run(translation)
