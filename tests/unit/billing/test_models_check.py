"""narthex models check: lists of others are read whatever their form, and what differs from what is known here is told."""

import time
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from app.billing.models_check import Difference, check_configuration, compare_list
from app.billing.public_lists import ListedModel, UnreadableList, read_list
from app.cli import main
from app.domain.prices import Price
from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.store.configuration.snapshots import build_snapshot

YES, NO = {"supported": True}, {"supported": False}
ANTHROPIC = {
    "data": [
        {
            "type": "model",
            "id": "claude-opus-5-5",
            "lifecycle": "active",
            "max_tokens": 128000,
            "capabilities": {
                "thinking": {"supported": True, "types": {"adaptive": YES, "disabled": NO, "enabled": NO, "between_tools": NO}},
                "effort": {"supported": True, "low": YES, "medium": YES, "high": YES, "xhigh": YES, "max": YES},
                "structured_outputs": YES,
            },
        },
        {"type": "model", "id": "claude-2", "lifecycle": "retired"},
    ],
    "has_more": True,
    "last_id": "claude-2",
}
LITELLM = {
    "sample_spec": {"mode": "one of chat, embedding"},
    "claude-opus-5-5": {
        **{"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 4e-06, "output_cost_per_token": 2.5e-05},
        **{"cache_read_input_token_cost": 2e-07, "supports_forced_tool_use": True, "supports_max_reasoning_effort": True},
    },
    "claude-opus-9": {"litellm_provider": "anthropic", "mode": "chat", "input_cost_per_token": 1e-06, "output_cost_per_token": 2e-06},
    "xai/grok-4.7": {"litellm_provider": "xai", "mode": "chat", "input_cost_per_token": 2e-06, "output_cost_per_token": 6e-06},
}
GENAI: Any = [
    {
        "id": "openai",
        "models": [
            {
                "id": "gpt-6-sol",
                "prices": [{"constraint": {"start_date": "2020-01-01"}, "prices": {"input_mtok": 9}}, {"prices": {"input_mtok": 3}}],
            },
            {"id": "gpt-6-luna", "prices": {"input_mtok": {"base": 0.1, "tiers": []}, "output_mtok": 0.5}},
        ],
    }
]
XAI = {"models": [{"id": "grok-4.7", "prompt_text_token_price": 20000, "completion_text_token_price": 70000}]}
MODELS_DEV = {"deepseek": {"models": {"deepseek-flash": {"cost": {"input": 0.3, "output": 1.3, "cache_read": 0.006}}}}}


def differences(document: Any, **options: Any) -> list[tuple[str, str, str | None, str | None, str | None]]:
    _, listed = read_list(msgspec.json.encode(document))
    found = compare_list("list", listed, time.time(), **options)
    return [(each.kind, each.model, each.field, each.ours, each.theirs) for each in found]


@pytest.mark.parametrize(
    ("document", "format", "told"),
    [
        (ANTHROPIC, "anthropic", []),
        (
            LITELLM,
            "litellm",
            [
                ("price", "claude-opus-5-5", "output", "20", "25"),
                ("rule", "claude-opus-5-5", "supports_forced_tool_use", "no", "yes"),
                ("new", "claude-opus-9", None, None, "input 1, output 2"),
            ],
        ),
        (GENAI, "genai-prices", [("price", "gpt-6-sol", "input", "2", "3")]),
        (XAI, "xai", [("price", "grok-4.7", "output", "6", "7")]),
        (MODELS_DEV, "models.dev", [("price", "deepseek-flash", "output", "1.2", "1.3")]),
    ],
    ids=["anthropic", "litellm", "genai-prices", "xai", "models.dev"],
)
def test_format_shows_from_the_content_and_differences_are_reported(document: Any, format: str, told: list[Any]):
    assert read_list(msgspec.json.encode(document))[0] == format
    assert differences(document) == told


def test_host_that_refuses_what_the_rules_have_is_reported():
    changed = msgspec.json.decode(msgspec.json.encode(ANTHROPIC))
    capabilities = changed["data"][0]["capabilities"]
    capabilities["thinking"]["types"]["disabled"], capabilities["effort"]["max"] = YES, NO
    assert differences(changed) == [
        ("rule", "claude-opus-5-5", "efforts", "low, medium, high, xhigh, max", "low, medium, high, xhigh"),
        ("rule", "claude-opus-5-5", "thinking.disabled", "no", "yes"),
    ]


def test_list_of_names_alone_reports_new_names():
    body = {"object": "list", "data": [{"id": "gpt-6-sol", "object": "model"}, {"id": "gpt-99", "object": "model"}]}
    assert differences(body, has_all_prices=False) == [("new", "gpt-99", None, None, None)]


@pytest.mark.parametrize("raw", [b"", b"<html>", b"[]", b"{}", b'{"a":1}', b'"text"', b'{"data":{}}'])
def test_anything_else_is_refused_with_what_can_be_read(raw: bytes):
    with pytest.raises(UnreadableList):
        read_list(raw)


def test_configured_models_without_a_price_or_rules_of_their_version_are_reported():
    targets = [Target("mine", "claude-opus-5-5"), Target("mine", "claude-opus-9")]
    configured = {f"m{at}": ModelConfig((target,)) for at, target in enumerate(targets)}
    price = Price("mine", "claude-opus-5-5", input=4, output=20)
    snapshot = build_snapshot(1, {"mine": ProviderConfig("anthropic")}, configured, prices=[price])
    told = [(each.kind, each.model) for each in check_configuration(snapshot, time.time())]
    assert told == [("unpriced", "claude-opus-9"), ("unknown rules", "claude-opus-9")]


def test_only_the_named_provider_is_compared():
    listed = [ListedModel("openai", "gpt-6-sol", {"input": 9.0}), ListedModel("xai", "grok-4.7", {"input": 9.0})]
    found: list[Difference] = list(compare_list("list", listed, time.time(), frozenset({"xai"})))
    assert [each.model for each in found] == ["grok-4.7"]


def test_command_exits_with_1_for_differences_and_with_0_without(tmp_path: Any):
    list_file = tmp_path / "list.json"
    list_file.write_bytes(msgspec.json.encode(XAI))
    differing = CliRunner().invoke(main, ["models", "check", "--no-configured", "--against", str(list_file), "--json"])
    assert differing.exit_code == 1, differing.output
    assert [each["field"] for each in msgspec.json.decode(differing.output)["differences"]] == ["output"]
    list_file.write_bytes(msgspec.json.encode(ANTHROPIC))
    agreed = CliRunner().invoke(main, ["models", "check", "--no-configured", "--against", str(list_file)])
    assert (agreed.exit_code, agreed.output) == (0, "No differences.\n")
