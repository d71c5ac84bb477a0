"""Fields by which a request would choose a model, an adapter, a place or code are not open to callers, unless the operator allows them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from providers.adapters.options import InvalidOption
from providers.adapters.provider import Provider
from providers.canonical.errors import InvalidRequest
from providers.catalogue import ADAPTERS, build_provider
from providers.fields import RESTRICTED_FIELDS
from tests.support.field_handling import HI, translate_body, translate_chat_fields

BASE_URL = "http://127.0.0.1:1"
# By adapter: fields that its engine or host reads, each with a value that chooses something.
CHOICES: Mapping[str, Mapping[str, Any]] = {
    "vllm": {
        "kv_transfer_params": {"do_remote_prefill": True, "remote_host": "10.0.0.1"},
        "vllm_xargs.kv_transfer_params": {"remote_host": "10.0.0.1"},
        "data_parallel_rank": 0,
        "priority": -1,
        "cache_salt": "another team's",
        "logits_processors": ["os.system"],
        "prompt_embeds": "AAAA",
    },
    "sglang": {
        "lora_path": "secret-adapter",
        "session_params": {"id": "another's"},
        "custom_logit_processor": "{}x",
        "bootstrap_host": "10.0.0.1",
        "bootstrap_room": 0,
        "data_parallel_rank": 0,
        "priority": 9,
    },
    "lmdeploy": {"adapter_name": "secret-adapter", "migration_request": {"remote_engine_id": "x"}, "preserve_cache": True},
    "llamacpp": {"lora": [{"id": 0, "scale": 1.0}], "id_slot": 0},
    "tgi": {"adapter_id": "secret-adapter"},
    "openrouter": {
        "models": ["openai/o3-pro"],
        "route": "fallback",
        "provider": {"order": ["x"]},
        "plugins": [{"id": "web"}],
        "preset": "p",
    },
    "groq": {"compound_custom": {"models": {"answering_model": "x"}}},
    "azure": {"data_sources": [{"type": "azure_search"}]},
    # What it is, is not known.
    "openai": {"lora_path": "x", "models": ["x"], "id_slot": 0, "fallbacks": ["x"], "api_base": "http://10.0.0.1", "priority": 1},
    "auto": {"lora_path": "x", "bootstrap_host": "10.0.0.1", "adapter_name": "x"},
}
CASES = [(adapter, path, value) for adapter, fields in CHOICES.items() for path, value in fields.items()]


def provider_with(adapter: str, **options: Any) -> Provider:
    return build_provider(
        adapter, adapter, options, BASE_URL if ADAPTERS[adapter].default_base_url is None or adapter == "openai" else None
    )


def nested(path: str, value: Any) -> dict[str, Any]:
    outer, _, inner = path.partition(".")
    return {outer: {inner: value, "kept": 1}} if inner else {outer: value}


def test_object_that_only_an_engine_can_read_is_refused():
    body = b'{"model": "m", "messages": [{"role": "user", "content": "a"}], "vllm_xargs": {"\xff": 1, "kv_transfer_params": {"a": 1}}}'
    with pytest.raises(InvalidRequest, match="not UTF-8") as refused:
        translate_body(provider_with("vllm"), "openai_chat", body)
    assert refused.value.param == "vllm_xargs"


@pytest.mark.parametrize(("adapter", "path", "value"), CASES)
def test_restricted_field_is_a_400_that_names_it(adapter: str, path: str, value: Any):
    with pytest.raises(InvalidRequest, match="not open to callers") as refused:
        translate_chat_fields(provider_with(adapter), nested(path, value))
    assert (refused.value.status, refused.value.param) == (400, path)
    assert f"`{path}`" in refused.value.message and RESTRICTED_FIELDS[path] in refused.value.message


@pytest.mark.parametrize(("adapter", "path", "value"), CASES)
def test_restricted_field_is_sent_where_the_operator_accepts_it_and_dropped_where_the_caller_allows(adapter: str, path: str, value: Any):
    outer, _, inner = path.partition(".")
    sent, dropped = translate_chat_fields(provider_with(adapter, accepts=[path]), nested(path, value))
    if outer not in ("provider", "priority", "lora_path"):  # OpenRouter adds to the one; others of the adapter's tables are about the rest
        assert (sent[outer], dropped) == (nested(path, value)[outer], [])
    sent, dropped = translate_chat_fields(provider_with(adapter), nested(path, value), drop=True)
    assert dropped == [path] and (sent[outer] == {"kept": 1} if inner else outer not in sent)


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_neutral_value_of_a_restricted_field_passes(value: Any):
    for adapter in ("vllm", "sglang", "openrouter", "llamacpp"):
        for path in CHOICES[adapter]:
            translate_chat_fields(provider_with(adapter), nested(path, value))
    translate_chat_fields(provider_with("llamacpp"), {"id_slot": -1})
    translate_chat_fields(provider_with("vllm"), {"priority": 0})


@pytest.mark.parametrize(
    ("dialect", "request_fields"),
    [
        ("openai_completions", {"prompt": "Once"}),
        ("openai_responses", {"input": "Hi", "store": False}),
        ("anthropic_messages", {"messages": HI, "max_tokens": 5}),
        ("openai_embeddings", {"input": "Hi"}),
        ("vllm_generate", {"token_ids": [1], "sampling_params": {"max_tokens": 1}}),
    ],
)
def test_restricted_field_is_refused_in_every_dialect_of_callers(dialect: str, request_fields: dict[str, Any]):
    """Unknown fields travel through a translation as well as through an edit."""
    raw = json.dumps({"model": "m", **request_fields, "kv_transfer_params": {"remote_host": "10.0.0.1"}}).encode()
    with pytest.raises(InvalidRequest) as refused:
        translate_body(provider_with("vllm"), dialect, raw)
    assert refused.value.param == "kv_transfer_params"


def test_generate_refuses_arguments_of_the_sampler_that_reach_the_cache():
    body = {
        "model": "m",
        "token_ids": [1],
        "sampling_params": {"max_tokens": 1, "extra_args": {"kv_transfer_params": {"remote_host": "x"}}},
    }
    with pytest.raises(InvalidRequest) as refused:
        translate_body(provider_with("vllm"), "vllm_generate", json.dumps(body).encode())
    assert refused.value.param == "sampling_params.extra_args"


def test_documented_fields_of_templates_and_media_stay_open():
    for adapter in ("vllm", "openai", "auto"):
        documented = {"chat_template": "{{ x }}", "chat_template_kwargs": {"a": 1}, "mm_processor_kwargs": {"a": 1}, "session_id": 7}
        provider = provider_with(adapter, accepts=sorted(documented))
        assert documented.items() <= translate_chat_fields(provider, documented)[0].items()


def test_operator_can_refuse_more_fields():
    provider = provider_with("vllm", refuses=["documents", "chat_template_kwargs.thinking"])
    for path in ("documents", "chat_template_kwargs.thinking"):
        with pytest.raises(InvalidRequest) as refused:
            translate_chat_fields(provider, nested(path, "x"))
        assert refused.value.param == path
    assert translate_chat_fields(provider, {"chat_template_kwargs": {"other": 1}})[0]["chat_template_kwargs"] == {"other": 1}


@pytest.mark.parametrize("options", [{"refuses": "lora"}, {"refuses": [1]}, {"refuses": ["a"], "accepts": ["a"]}])
def test_invalid_refuses_option_is_refused(options: dict[str, Any]):
    with pytest.raises(InvalidOption, match="refuses"):
        provider_with("vllm", **options)


def test_configuration_page_lists_the_restricted_fields_of_every_adapter():
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    section = page.partition("### Restricted fields")[2].partition("\n### ")[0]
    for adapter, adapter_class in ADAPTERS.items():
        fields = adapter_class.restricted_fields
        if fields and fields != RESTRICTED_FIELDS:
            assert f"| `{adapter}` | {', '.join(f'`{field}`' for field in sorted(fields))} |" in section
    assert [field for field in RESTRICTED_FIELDS if f"`{field}`" not in section] == []
