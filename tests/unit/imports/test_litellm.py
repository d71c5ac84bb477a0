"""LiteLLM's config.yaml: what becomes of it, that `apply` takes it, and that nothing in it is forgotten or revealed."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.errors import BadConfiguration
from app.imports.draft import Imported, check_applicable
from app.imports.litellm.read_config import import_litellm
from app.imports.report import NoteKind

CONFIG = Path(__file__).with_name("litellm_config.yaml")


def imported_document(text: str, **variables: str) -> dict[str, Any]:
    return tomllib.loads(import_litellm(text, variables).text)


def notes(imported: Imported, kind: NoteKind) -> dict[str, str]:
    """The messages by path. A path with several has them one after the other."""
    found: dict[str, str] = {}
    for note in imported.notes:
        if note.kind == kind:
            found[note.path] = f"{found.get(note.path, '')} {note.message}".strip()
    return found


def one_model(params: Mapping[str, Any], **more: Any) -> str:
    return yaml.safe_dump({"model_list": [{"model_name": "m", "litellm_params": dict(params)}], **more})


def one_provider(params: Mapping[str, Any], **variables: str) -> tuple[dict[str, Any], str]:
    """The provider of a file with one entry, and the target's model."""
    document = imported_document(one_model(params), **variables)
    (target,) = document["models"]["m"]["targets"]
    return document["providers"][target["provider"]], target["model"]


def test_realistic_configuration_is_brought() -> None:
    document = imported_document(CONFIG.read_text())
    assert document["providers"] == {
        "azure": {
            "adapter": "azure",
            "base_url": "https://ours-eu.openai.azure.com",
            "credential": "env:AZURE_API_KEY_EU",
            "options": {"api_version": "2024-10-21"},
        },
        "openai": {"adapter": "openai", "credential": "store:openai", "options": {"organization": "org-ours"}},
        "bedrock": {
            "adapter": "bedrock",
            "credential": "aws:default",
            "options": {"region": "eu-west-1", "guardrail": {"id": "gr-1", "version": "3", "trace": True}},
        },
        "bedrock-2": {
            "adapter": "bedrock",
            "credential": "store:bedrock",
            "options": {"region": "eu-west-1", "guardrail": {"id": "gr-1", "version": "3", "trace": True}},
        },
        "vertex_ai": {
            "adapter": "vertex",
            "credential": "file:/run/secrets/narthex/vertex.json",
            "options": {"project": "ours", "location": "europe-west4"},
        },
        "hosted_vllm": {"adapter": "vllm", "base_url": "http://10.0.0.5:8000/v1"},
        "hosted_vllm-2": {"adapter": "vllm", "base_url": "http://10.0.0.7:8000/v1"},
        "deepseek": {"adapter": "deepseek", "credential": "env:DEEPSEEK_API_KEY"},
        "openai-2": {"adapter": "openai", "credential": "env:OPENAI_API_KEY"},
    }
    models = document["models"]
    assert list(models) == ["gpt-5-mini", "sonnet", "sonnet-us", "gemini", "qwen", "cheap", "embed", "gpt-4o", "GPT-5-Mini"]
    assert models["gpt-5-mini"] == {
        "targets": [
            {"provider": "azure", "model": "gpt-5-mini-eu", "weight": 600, "max_concurrency": 32},
            {
                "provider": "openai",
                "model": "gpt-5-mini",
                "weight": 200,
                "timeouts": {"first_token_s": 10, "total_s": 20},
            },
        ],
        "fallbacks": ["sonnet"],
        "fallback_on": {"sonnet": ["failure", "unsupported", "constraint", "content_refused"]},
        "retries": 3,
        "timeouts": {"first_token_s": 10, "total_s": 60},
        "drop": "all",
        "capabilities": ["chat", "tools", "vision"],
    }
    assert models["gpt-4o"] == models["GPT-5-Mini"] == models["gpt-5-mini"]
    assert [each["weight"] for each in models["qwen"]["targets"]] == [3, 1]
    assert models["qwen"]["fallbacks"] == ["cheap", "gemini"] and models["qwen"]["fallback_on"]["gemini"] == ["context_length"]
    assert "fallbacks" not in models["cheap"]  # it is the default itself
    assert models["sonnet-us"]["targets"] == [{"provider": "bedrock-2", "model": "us.anthropic.claude-sonnet-4-5-20250929-v1:0"}]
    assert document["prices"] == [
        {"provider": "hosted_vllm", "model": "Qwen/Qwen3-4B", "input": 0.15, "output": 0.6},
        {"provider": "deepseek", "model": "deepseek-chat", "input": 0.28, "output": 0.42, "cached_input": 0.028},
    ]


def test_limits_count_what_litellm_counts() -> None:
    limits = {each.pop("name"): each for each in imported_document(CONFIG.read_text())["limits"]}
    assert limits == {
        "gpt-5-mini requests per minute": {"scope": {"model": "gpt-5-mini"}, "resource": "requests", "amount": 800, "per": "minute"},
        "gpt-5-mini tokens per minute": {"scope": {"model": "gpt-5-mini"}, "resource": "tokens", "amount": 150_000, "per": "minute"},
        "cheap cost": {"scope": {"model": "cheap"}, "resource": "cost_usd", "amount": 100, "per": "month"},
        "requests in progress": {"scope": {"all": "each"}, "resource": "concurrency", "amount": 500},
        "cost": {"scope": {"all": "each"}, "resource": "cost_usd", "amount": 1000, "per": "month", "dry_run": True},
        "requests per minute of a key": {"scope": {"key": "each"}, "resource": "requests", "amount": 100, "per": "minute"},
        "cost of a key": {"scope": {"key": "each"}, "resource": "cost_usd", "amount": 5, "per": "week", "dry_run": True},
    }


def test_rates_that_only_weigh_become_dry_runs() -> None:
    params = {"model": "openai/gpt-5", "rpm": 10}
    (limit,) = imported_document(one_model(params))["limits"]
    assert limit["amount"] == 10 and limit["dry_run"] is True
    (limit,) = imported_document(one_model(params, router_settings={"optional_pre_call_checks": ["enforce_model_rate_limits"]}))["limits"]
    assert "dry_run" not in limit


def test_report_names_everything_that_was_not_brought() -> None:
    imported = import_litellm(CONFIG.read_text(), {})
    left_out = notes(imported, "left_out")
    assert left_out.keys() >= {
        "model_list[5].litellm_params.max_budget",  # of one of two entries
        "model_list[6].litellm_params.temperature",
        "model_list[9]",
        "model_list[10]",
        "router_settings.fallbacks[0].gpt-5-mini",
        "router_settings.redis_host",
        "router_settings.redis_password",
        "router_settings.retry_policy",
        "router_settings.model_group_alias.GPT-5-Mini.hidden",
        "litellm_settings.cache",
        "litellm_settings.cache_params",
        "litellm_settings.success_callback",
        "litellm_settings.default_key_generate_params.models",
        "general_settings.master_key",
        "general_settings.database_url",
        "general_settings.alerting",
        "guardrails",
    }
    assert "litellm_settings.set_verbose" not in left_out  # it is off
    assert "This importer does not know it." not in left_out.values()
    assert "`narthex credentials set openai`" in notes(imported, "to_do")["model_list[1].litellm_params.api_key"]
    changed = notes(imported, "changed").keys()
    assert changed >= {"router_settings.routing_strategy", "router_settings.timeout", "litellm_settings.drop_params"}


def test_secrets_are_neither_written_nor_reported() -> None:
    imported = import_litellm(CONFIG.read_text(), {})
    everything = imported.text + "".join(f"{each.path} {each.message}" for each in imported.notes)
    for secret in ("literal", "AKIAEXAMPLE", "sk-", "narrator", "lf-public"):
        assert secret not in everything


def test_importing_twice_gives_the_same_file() -> None:
    first, second = (import_litellm(CONFIG.read_text(), {}) for _ in range(2))
    assert first == second


def tables_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        yield path, table
        for key, each in table.items():
            yield from tables_in(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(cast("list[Any]", value)):
            yield from tables_in(each, (*path, at))


def written_path(path: tuple[Any, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def test_key_that_nobody_knows_is_reported_wherever_it_is() -> None:
    document = yaml.safe_load(CONFIG.read_text())
    places = [path for path, _ in tables_in(document) if path[-1:] != ("credential_info",)]  # which is only for people
    assert len(places) > 40
    for place in places:
        changed = yaml.safe_load(CONFIG.read_text())
        table: Any = changed
        for part in place:
            table = table[part]
        table["frobnicate"] = "x"
        inserted = written_path((*place, "frobnicate"))
        reported = [note.path for note in import_litellm(yaml.safe_dump(changed, sort_keys=False), {}).notes]
        # What is left out as a whole is reported once.
        assert any(inserted == path or inserted.startswith((f"{path}.", f"{path}[")) for path in reported), inserted


@pytest.mark.parametrize(
    ("params", "provider", "model"),
    [
        ({"model": "anthropic/claude-opus-5"}, {"adapter": "anthropic", "credential": "env:ANTHROPIC_API_KEY"}, "claude-opus-5"),
        ({"model": "claude-opus-5"}, {"adapter": "anthropic", "credential": "env:ANTHROPIC_API_KEY"}, "claude-opus-5"),
        ({"model": "o4-mini"}, {"adapter": "openai", "credential": "env:OPENAI_API_KEY"}, "o4-mini"),
        ({"model": "gpt-5", "custom_llm_provider": "groq"}, {"adapter": "groq", "credential": "env:GROQ_API_KEY"}, "gpt-5"),
        (
            {"model": "openrouter/anthropic/claude-haiku-4.5"},
            {"adapter": "openrouter", "credential": "env:OPENROUTER_API_KEY"},
            "anthropic/claude-haiku-4.5",
        ),
        ({"model": "openai/mine", "api_base": "http://10.0.0.5:9000"}, {"adapter": "openai", "base_url": "http://10.0.0.5:9000"}, "mine"),
        ({"model": "ollama_chat/llama3.1"}, {"adapter": "ollama", "base_url": "http://localhost:11434"}, "llama3.1"),
        ({"model": "gemini/gemini-3-flash"}, {"adapter": "gemini", "credential": "env:GEMINI_API_KEY"}, "gemini-3-flash"),
        (
            {"model": "vertex_ai/claude-sonnet-4-5@20250929", "vertex_project": "p"},
            {"adapter": "vertex", "credential": "google:default", "options": {"location": "us-central1", "project": "p"}},
            "claude-sonnet-4-5@20250929",
        ),
        (
            {"model": "azure_ai/mistral-large", "api_base": "https://r.services.ai.azure.com/models", "api_key": "os.environ/K"},
            {
                "adapter": "azure",
                "base_url": "https://r.services.ai.azure.com/models",
                "credential": "env:K",
                "options": {"api": "models"},
            },
            "mistral-large",
        ),
        (
            {
                **{"model": "azure_ai/claude-opus-5", "api_base": "https://r.services.ai.azure.com/anthropic"},
                **{"api_key": "os.environ/K", "api_version": "2024-10-21"},
            },
            {
                "adapter": "azure",
                "base_url": "https://r.services.ai.azure.com/anthropic",
                "credential": "env:K",
                "options": {"api": "anthropic"},
            },
            "claude-opus-5",
        ),
        (
            {"model": "azure/o_series/o3", "api_base": "https://r.openai.azure.com/openai/deployments/d", "azure_ad_token": "os.environ/T"},
            {"adapter": "azure", "base_url": "https://r.openai.azure.com", "credential": "env:T"},
            "o3",
        ),
        (
            {"model": "fireworks_ai/kimi-k2"},
            {"adapter": "fireworks", "credential": "env:FIREWORKS_API_KEY"},
            "accounts/fireworks/models/kimi-k2",
        ),
        (
            {"model": "bedrock/amazon.nova-pro-v1:0", "aws_profile_name": "prod", "aws_region_name": "eu-west-1"},
            {"adapter": "bedrock", "credential": "aws:profile:prod", "options": {"region": "eu-west-1"}},
            "amazon.nova-pro-v1:0",
        ),
        (
            {"model": "bedrock/arn:aws:bedrock:eu-west-1:1:application-inference-profile/x", "api_key": "os.environ/BEDROCK_KEY"},
            {"adapter": "bedrock", "credential": "env:BEDROCK_KEY"},
            "arn:aws:bedrock:eu-west-1:1:application-inference-profile/x",
        ),
        (
            {"model": "sagemaker_chat/endpoint", "aws_region_name": "eu-west-1"},
            {"adapter": "sagemaker", "credential": "aws:default", "options": {"payload": "openai_chat", "region": "eu-west-1"}},
            "endpoint",
        ),
        (
            {"model": "nvidia_nim/meta/llama3-70b-instruct"},
            {"adapter": "openai", "base_url": "https://integrate.api.nvidia.com/v1", "credential": "env:NVIDIA_NIM_API_KEY"},
            "meta/llama3-70b-instruct",
        ),
        (
            {"model": "anthropic/claude-opus-5", "extra_headers": {"anthropic-beta": "a, b"}},
            {"adapter": "anthropic", "credential": "env:ANTHROPIC_API_KEY", "options": {"anthropic_beta": ["a", "b"]}},
            "claude-opus-5",
        ),
    ],
    ids=str,
)
def test_provider_of_an_entry(params: dict[str, Any], provider: dict[str, Any], model: str) -> None:
    assert one_provider(params) == (provider, model)


def test_openai_responses_route_fixes_the_dialect() -> None:
    (target,) = imported_document(one_model({"model": "openai/responses/gpt-5"}))["models"]["m"]["targets"]
    assert target == {"provider": "openai", "model": "gpt-5", "dialect": "openai_responses"}


def test_addresses_and_default_keys_follow_the_environment() -> None:
    variables = {"AZURE_API_BASE": "https://env.openai.azure.com", "AZURE_API_VERSION": "2024-10-21", "GOOGLE_API_KEY": "secret"}
    assert one_provider({"model": "azure/d"}, **variables)[0] == {
        "adapter": "azure",
        "base_url": "https://env.openai.azure.com",
        "credential": "env:AZURE_API_KEY",
        "options": {"api_version": "2024-10-21"},
    }
    assert one_provider({"model": "gemini/g"}, **variables)[0]["credential"] == "env:GOOGLE_API_KEY"


@pytest.mark.parametrize(
    ("params", "path", "said"),
    [
        ({"model": "azure/x"}, "litellm_params.model", "needs an address"),
        ({"model": "watsonx/ibm/granite"}, "litellm_params.model", "no adapter for LiteLLM's provider 'watsonx'"),
        ({"model": "my-model"}, "litellm_params.model", "who serves it"),
        ({}, "litellm_params.model", "missing"),
        ({"model": "bedrock/agent/A/B"}, "litellm_params.model", "no counterpart"),
        ({"model": "hosted_vllm/x", "api_base": "http://u:pw-secret@h"}, "litellm_params.api_base", "no user and password"),
        ({"model": "hosted_vllm/x", "api_base": "http://h/?key=pw-secret"}, "litellm_params.api_base", "no query"),
        ({"model": "hosted_vllm/x", "api_base": "pw-secret"}, "litellm_params.api_base", "not an address"),
        ({"model": "hosted_vllm/x", "api_base": "os.environ/NOWHERE"}, "litellm_params.api_base", "lacks"),
        ({"model": "openai/dall-e-3"}, "", "not served"),
        ({"model": "auto_router/auto"}, "", "by the content"),
        ({"model": ["a"]}, "litellm_params.model", "should be a text"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_entry_that_cannot_be_served_is_left_out(params: dict[str, Any], path: str, said: str) -> None:
    imported = import_litellm(one_model(params), {})
    assert "models" not in tomllib.loads(imported.text)
    left_out = notes(imported, "left_out")
    assert said in left_out[f"model_list[0].{path}".rstrip(".")]
    assert "pw-secret" not in str(imported)


@pytest.mark.parametrize("name", ["DATABASE_URL", "NARTHEX_SECRET_KEY", "PGPASSWORD", "sk-not-a-name"])
def test_variable_that_the_gateway_keeps_to_itself_becomes_a_stored_credential(name: str) -> None:
    imported = import_litellm(one_model({"model": "openai/x", "api_key": f"os.environ/{name}"}), {})
    assert tomllib.loads(imported.text)["providers"]["openai"]["credential"] == "store:openai"
    to_do = notes(imported, "to_do")["model_list[0].litellm_params.api_key"]
    assert name not in str(imported) and "narthex credentials set openai" in to_do


def test_entries_in_order_have_no_weights() -> None:
    entries = [
        {"model_name": "m", "litellm_params": {"model": "openai/second", "order": 2, "rpm": 9}},
        {"model_name": "m", "litellm_params": {"model": "openai/first", "order": 1, "rpm": 1}},
    ]
    assert imported_document(yaml.safe_dump({"model_list": entries}))["models"]["m"]["targets"] == [
        {"provider": "openai", "model": "first"},
        {"provider": "openai", "model": "second"},
    ]


def test_entries_without_weights_share_evenly() -> None:
    entries = [{"model_name": "m", "litellm_params": {"model": f"openai/{name}"}} for name in ("a", "b")]
    assert [each["weight"] for each in imported_document(yaml.safe_dump({"model_list": entries}))["models"]["m"]["targets"]] == [1, 1]


def test_general_fallbacks_serve_for_reasons_without_a_list() -> None:
    entries = [{"model_name": name, "litellm_params": {"model": f"openai/{name}"}} for name in ("a", "b", "c")]
    document = imported_document(yaml.safe_dump({"model_list": entries, "litellm_settings": {"fallbacks": [{"*": ["b"]}]}}))
    assert document["models"]["a"]["fallback_on"]["b"] == ["failure", "unsupported", "constraint", "context_length", "content_refused"]
    assert "fallbacks" not in document["models"]["b"]
    router = {"fallbacks": [{"a": ["b"]}], "context_window_fallbacks": [{"c": ["b"]}], "content_policy_fallbacks": [{"a": ["b", "c"]}]}
    document = imported_document(yaml.safe_dump({"model_list": entries, "router_settings": router}))
    assert document["models"]["a"]["fallbacks"] == ["b", "c"]
    assert document["models"]["a"]["fallback_on"] == {
        "b": ["failure", "unsupported", "constraint", "content_refused"],
        "c": ["content_refused"],
    }


def test_price_of_a_second_is_that_of_an_engine() -> None:
    document = imported_document(one_model({"model": "openai/x", "input_cost_per_second": 0.0005}))
    assert document["prices"] == [{"provider": "openai", "model": "x", "gpu": {"usd_per_hour": 1.8}}]


def test_prices_of_long_prompts_are_steps() -> None:
    params = {
        "model": "openai/x",
        "input_cost_per_token": 1.25e-06,
        "output_cost_per_token": 1e-05,
        "input_cost_per_token_above_200k_tokens": 2.5e-06,
    }
    (price,) = imported_document(one_model(params))["prices"]
    assert price["steps"] == [{"above": 200_000, "input": 2.5, "output": 10.0}] and (price["input"], price["output"]) == (1.25, 10)


def test_included_files_are_part_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(one_model({"model": "openai/x"}, litellm_settings={"num_retries": 1}))
    text = "include: [models.yaml]\nlitellm_settings: { num_retries: 4 }\n"
    document = tomllib.loads(import_litellm(text, {}, tmp_path).text)
    assert document["models"]["m"]["retries"] == 1
    entry = "{ model_name: n, litellm_params: { model: openai/y } }"
    both = import_litellm(f"include: [models.yaml]\nmodel_list: [{entry}]\n", {}, tmp_path)
    assert list(tomllib.loads(both.text)["models"]) == ["n", "m"]
    assert "include" in notes(import_litellm(f"include: x.yaml\nmodel_list: [{entry}]", {}, tmp_path), "left_out")


@pytest.mark.parametrize("name", ["../outside.yaml", "link.yaml", "/etc/hostname", "absent.yaml", "."])
def test_file_outside_of_the_folder_is_not_included(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (tmp_path / "outside.yaml").write_text(one_model({"model": "openai/x"}))
    (folder / "link.yaml").symlink_to(tmp_path / "outside.yaml")
    with pytest.raises(BadConfiguration, match=r"include\[0\]: the file is outside|cannot be read|not a regular file"):
        import_litellm(f"include: [{name}]\n", {}, folder)


def test_empty_texts_count_as_absent() -> None:
    imported = import_litellm(one_model({"model": "openai/x", "api_key": "", "api_base": "", "frobnicate": ""}), {})
    assert tomllib.loads(imported.text)["providers"]["openai"] == {"adapter": "openai", "credential": "env:OPENAI_API_KEY"}
    assert imported.notes == ()


def test_numbers_that_mean_nothing_take_no_model_with_them() -> None:
    params = {"model": "openai/x", "max_parallel_requests": 0, "num_retries": 99, "max_retries": 10**300, "timeout": 0, "weight": -1}
    document = imported_document(
        yaml.safe_dump({"model_list": [{"model_name": "m", "litellm_params": params, "model_info": {"max_input_tokens": 0}}]})
    )
    assert document["models"]["m"] == {"targets": [{"provider": "openai", "model": "x", "retries": 5}]}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: 1", "model_list: {}", "model_list: [", "- model_list", "model_list: []\n---\nb: 1", "a: !!python/object:os.system {}"],
)
def test_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(BadConfiguration):
        import_litellm(text, {})


scalars = st.none() | st.booleans() | st.integers(-5, 10**12) | st.floats(allow_nan=False) | st.text(max_size=12)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6
)
prefixes = st.sampled_from(["openai/", "azure/", "bedrock/", "hosted_vllm/", "vertex_ai/", "gemini/", "ollama/", "nobody/", "", "openai/*"])
parameters = st.dictionaries(
    st.sampled_from(
        [
            *("api_base", "api_key", "api_version", "rpm", "tpm", "weight", "order", "timeout", "stream_timeout", "num_retries"),
            *("max_budget", "budget_duration", "organization", "aws_region_name", "vertex_credentials", "extra_headers", "drop_params"),
            *("input_cost_per_token", "output_cost_per_token", "max_parallel_requests", "guardrailConfig", "litellm_credential_name", "x"),
        ]
    ),
    values | st.sampled_from(["http://h", "os.environ/A", "30d"]),
    max_size=5,
)
model_entries = st.fixed_dictionaries(
    {"model_name": st.sampled_from(["a", "b", "c"]) | values, "litellm_params": st.tuples(prefixes, st.text(max_size=5), parameters)}
)
sections = st.dictionaries(
    st.sampled_from(["router_settings", "litellm_settings", "general_settings", "credential_list", "environment_variables", "x"]),
    values
    | st.dictionaries(
        st.sampled_from(["fallbacks", "default_fallbacks", "num_retries", "timeout", "model_group_alias", "max_budget", "budget_duration"]),
        values | st.sampled_from([[{"a": ["b", "c"]}], [{"*": ["a"]}], {"d": "a", "e": "d"}, ["a"], "1d"]),
        max_size=4,
    ),
    max_size=4,
)


@settings(deadline=None)
@given(st.lists(model_entries, max_size=4), sections)
def test_whatever_is_imported_can_be_applied(entries: list[dict[str, Any]], more: dict[str, Any]) -> None:
    for each in entries:
        prefix, name, params = each["litellm_params"]
        each["litellm_params"] = {"model": prefix + name, **params}
    text = yaml.safe_dump({"model_list": entries, **more}, allow_unicode=True)
    imported = import_litellm(text, {"A": "http://a"})
    check_applicable(imported.text)
    assert imported == import_litellm(text, {"A": "http://a"})
