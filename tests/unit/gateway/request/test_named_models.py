"""A key that is held to models is held to them wherever a request names one, and nothing that callers write themselves names one."""

import json
from typing import Any

import pytest

from app.domain.callers import Caller
from app.domain.routing import ModelConfig, Target
from app.gateway.routing.named_models import check_named_models
from app.store.configuration.snapshots import build_snapshot
from providers.canonical.errors import NotAllowed
from providers.canonical.raw_json import Body

SNAPSHOT = build_snapshot(
    1, {}, {"small": ModelConfig((Target("host", "vendor/small-1"),)), "large": ModelConfig((Target("host", "vendor/large-1"),))}
)
CALLER = Caller("k", "t", "team", "full", prefix="nx-1", models=("small", "mini*"))
SCHEMA = {"type": "object", "properties": {"model": {"type": "string", "enum": ["large"]}}, "examples": [{"model": "large"}]}


def check(body: dict[str, Any]) -> None:
    check_named_models(SNAPSHOT, CALLER, Body.read(json.dumps({"model": "small", "messages": [], **body}).encode()))


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"fallbacks": [{"model": "large"}]}, "fallbacks[0].model"),
        ({"fallbacks": ["small", "large"]}, "fallbacks[1]"),
        ({"fallbacks": [{"small": ["large"]}]}, "fallbacks[0].small[0]"),
        ({"context_window_fallbacks": {"small": ["large"]}}, "context_window_fallbacks.small[0]"),
        ({"context_window_fallback_dict": {"small": "large"}}, "context_window_fallback_dict.small"),
        ({"deployment_id": "large"}, "deployment_id"),
        ({"extra": {"deploymentName": "large"}}, "extra.deploymentName"),
        ({"models": ["small", "large"], "route": "fallback"}, "models[1]"),
        ({"tools": [{"type": "advisor_20260301", "name": "advisor", "model": "large"}]}, "tools[0].model"),
        ({"tools": [{"type": "image_generation", "model": "large"}]}, "tools[0].model"),
        ({"tools": [{"type": "host:search", "parameters": {"model": "large"}}]}, "tools[0].parameters.model"),
        ({"moderation": {"model": "large"}}, "moderation.model"),
        ({"plugins": [{"id": "web", "max_price": 1, "judge_model": "large"}]}, "plugins[0].judge_model"),
        ({"providerOptions": {"gateway": {"models": ["large"]}}}, "providerOptions.gateway.models[0]"),
        ({"extra_body": {"deep": [[{"modelId": "large"}]]}}, "extra_body.deep[0][0].modelId"),
        ({"Fallback-Models": "large"}, "Fallback-Models"),
        ({"router": {"model": {"name": "large"}}}, "router.model.name"),
        ({"config": {"targets": [{"override_params": {"model": "large"}}]}}, "config.targets[0].override_params.model"),
        ({"tensorzero::extra_body": [{"pointer": "/model", "value": "large"}]}, "tensorzero::extra_body[0].value"),
    ],
)
def test_a_field_that_names_another_model_is_refused_by_its_path(body: dict[str, Any], path: str):
    with pytest.raises(NotAllowed, match="large") as refused:
        check(body)
    assert refused.value.param == path


def test_an_escaped_name_of_a_field_is_read_as_engines_read_it():
    body = Body.read(b'{"model": "small", "extra": {"\\u006dodel": "large"}}')
    with pytest.raises(NotAllowed):
        check_named_models(SNAPSHOT, CALLER, body)


@pytest.mark.parametrize(
    "body",
    [
        {"fallbacks": ["small", "mini-2", "vendor/small-1"], "models": [], "fallback_model": None},
        {"moderation": {"model": "vendor/small-1"}, "include_model": True},
        {"messages": [{"role": "user", "content": [{"type": "tool_use", "input": {"model": "large"}}]}]},
        {"metadata": {"model": "large"}, "system": [{"type": "text", "text": "large model", "model": "large"}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]},
        {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}, {"name": "g", "input_schema": SCHEMA}]},
        {"functions": [{"name": "f", "parameters": SCHEMA}]},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}},
        {"text": {"format": {"type": "json_schema", "schema": SCHEMA}}, "output_config": {"format": {"schema": SCHEMA}}},
        {"stop": ["large", "model"], "user": "model large"},
    ],
)
def test_what_a_key_may_use_and_what_callers_write_themselves_passes(body: dict[str, Any]):
    check(body)


def test_a_letter_that_is_another_one_in_small_letters_hides_no_field():
    body = Body.read('{"model": "small", "extra": {"fallbac\u212a": "large"}}'.encode())
    with pytest.raises(NotAllowed):
        check_named_models(SNAPSHOT, CALLER, body)


@pytest.mark.parametrize(
    "value", [["small"] * 200_000 + ["large"], [{"id": "small"}] * 50_000 + [[{"model": "large"}]]], ids=["texts", "objects"]
)
def test_a_model_is_found_behind_many_others(value: list[Any]):
    with pytest.raises(NotAllowed) as refused:
        check({"extra": {"models": value}})
    assert str(refused.value.param).startswith(f"extra.models[{len(value) - 1}]")


def test_a_refusal_is_short_however_long_names_and_paths_are():
    deep: Any = {"model_" + "m" * 100_000 + "model": "large"}
    for _ in range(100):
        deep = {"e" * 1_000: [deep]}
    with pytest.raises(NotAllowed) as refused:
        check({"extra": deep})
    assert len(str(refused.value)) < 10_000 and str(refused.value.param).startswith("...")


def test_long_names_are_written_once_and_not_for_each_value_below():
    """A name that is written for each value takes 200 gigabytes here, in time and in memory."""
    check({"extra": {"models_" + "m" * 1_000_000: [[1, "small"]] * 200_000}})
