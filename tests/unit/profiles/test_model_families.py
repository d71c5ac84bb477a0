"""Families of models: what a name says in each host's spelling, and that no model which we name lacks a row of rules."""

import re
import tomllib
from pathlib import Path

import pytest

from providers.model_families import find_model
from providers.profiles.chat_models import CHAT_MODELS, ChatModelRules, find_chat_rules
from providers.profiles.gemini import GEMINI, find_profile
from providers.profiles.rules_by_version import Version

ROOT = Path(__file__).parents[3]
PRICES = tomllib.loads((ROOT / "app" / "billing" / "price_list.toml").read_text())["prices"]

NAMES: list[tuple[str, str, str, Version | None]] = [
    ("moonshotai/Kimi-K2.5", "Kimi", "", (2, 5)),
    ("accounts/fireworks/models/kimi-k2p6", "Kimi", "", (2, 6)),
    ("moonshotai.kimi-k2-thinking", "Kimi", "thinking", (2,)),
    ("kimi-k2-0905-preview", "Kimi", "", (2,)),
    ("k3.1-pro", "Kimi", "", (3, 1)),
    ("kimi-latest", "Kimi", "", None),
    ("deepseek-ai/DeepSeek-V4", "DeepSeek", "", (4,)),
    ("deepseek-ai/DeepSeek-V4.1-Flash", "DeepSeek", "flash", (4, 1)),
    ("accounts/fireworks/models/deepseek-v3p2", "DeepSeek", "", (3, 2)),
    ("us.deepseek.r1-v1:0", "DeepSeek", "r1", (1,)),
    ("deepseek/deepseek-v4-pro-0813:free", "DeepSeek", "", (4,)),
    ("deepseek-flash", "DeepSeek", "flash", None),
    ("zai-org/GLM-5", "GLM", "", (5,)),
    ("accounts/fireworks/routers/glm-5p3-fast", "GLM", "", (5, 3)),
    ("zai-org/glm-5-maas", "GLM", "", (5,)),
    ("glm-4-9b-chat", "GLM", "", (4,)),
    ("google/gemini-3.8-flash", "Gemini", "flash", (3, 8)),
    ("publishers/google/models/gemini-2.5-pro@001", "Gemini", "pro", (2, 5)),
    ("models/gemini-4-neon-preview", "Gemini", "neon", (4,)),
    ("gemini-flash-lite-latest", "Gemini", "flash-lite", None),
    ("x-ai/grok-4.7", "Grok", "", (4, 7)),
    ("grok-4-0709", "Grok", "", (4,)),
    ("grok-4.20-0309-non-reasoning", "Grok", "non-reasoning", (4, 2)),
    ("~x-ai/grok-latest", "Grok", "", None),
    ("mistral-small-2603", "Mistral", "small", (4,)),
    ("mistral-medium-3-5", "Mistral", "medium", (3, 5)),
    ("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "Mistral", "small", (3, 2)),
    ("magistral-medium-2509", "Mistral", "magistral", (2509,)),
    ("qwen3:8b", "Qwen", "", (3,)),
    ("Qwen/Qwen3-235B-A22B-Thinking-2507", "Qwen", "thinking", (3,)),
    ("qwen-3.8-27b", "Qwen", "", (3, 8)),
    ("Qwen2.5-72B-Instruct", "Qwen", "instruct", (2, 5)),
    ("us.anthropic.claude-opus-4-8-v1:0", "Claude", "opus", (4, 8)),
    ("openai/gpt-oss-120b", "gpt-oss", "", None),
    ("gpt-5.6-sol", "GPT", "", (5, 6)),
    ("o4-mini", "GPT", "", (4,)),
]


@pytest.mark.parametrize(("name", "family", "line", "version"), NAMES)
def test_each_hosts_spelling_says_family_line_and_version(name: str, family: str, line: str, version: Version | None) -> None:
    found = find_model(name)
    assert found is not None
    assert (found.family, found.line, found.version, found.is_known) == (family, line, version, True)


@pytest.mark.parametrize(
    "name",
    [
        "gemma-3-27b",
        "llama-3.3-70b",
        "my-deepseeker",
        "qwen-7b",
        "Qwen/Qwen-72B-Chat",
        "sonar-pro",
        "assistant",
        "text-embedding-3-small",
        "",
    ],
)
def test_names_of_other_models_are_of_no_family(name: str) -> None:
    assert find_model(name) is None


@pytest.mark.parametrize(
    "name", ["deepseek-ai/deepseek-vl2", "deepseek-ocr", "deepseek-coder-33b", "moonshotai/Kimi-VL-A3B", "kimi-dev-72b"]
)
def test_models_of_another_kind_do_not_have_the_newest_chat_models_rules(name: str) -> None:
    rules = find_chat_rules(name)
    assert rules is not None and rules == ChatModelRules(family=rules.family)


@pytest.mark.parametrize(
    ("name", "thinking"),
    [
        *[("glm-4.1v-thinking-flash", "always"), ("zai-org/GLM-4.1V-9B-Thinking", "always"), ("zai-org/GLM-Z1-32B-0414", "always")],
        *[("glm-4-plus", "never"), ("glm-4-9b-chat", "never"), ("glm-4v-flash", "never"), ("glm-4.5v", "by default")],
    ],
)
def test_glm_before_4_5_thinks_always_or_never(name: str, thinking: str) -> None:
    rules = find_chat_rules(name)
    assert rules is not None and (rules.thinking, rules.efforts) == (thinking, ())


# A version that nobody knows yet, and one that has the newest rules of its line.
NEXT_VERSIONS = {
    **{"kimi-k4": "kimi-k3.1-pro", "moonshotai/Kimi-K3.2": "kimi-k3.1-pro", "glm-6": "glm-5.3", "zai-org/GLM-5.4-Flash": "glm-5.3"},
    **{"grok-5": "grok-4.7", "grok-4.8-fast": "grok-4.7", "deepseek-v5-pro": "deepseek-v4-pro", "deepseek-v5-flash": "deepseek-v4.1-flash"},
    **{
        "qwen4-max": "qwen3.8-max",
        "qwen-3.9-32b": "qwen3.8-max",
        "mistral-large-5": "mistral-large-4",
        "mistral-small-2703": "mistral-small-2603",
    },
}


@pytest.mark.parametrize(("unknown", "newest"), NEXT_VERSIONS.items())
def test_next_version_gets_the_newest_rules_of_its_line(unknown: str, newest: str) -> None:
    found = find_model(unknown)
    assert found is not None and not found.is_known
    assert find_chat_rules(unknown) == find_chat_rules(newest) is not None


@pytest.mark.parametrize("unknown", ["gpt-6.3-sol", "openai/gpt-7", "o5-mini", "gpt-5.7"])
def test_next_gpt_is_of_its_family_and_has_no_row(unknown: str) -> None:
    found = find_model(unknown)
    assert found is not None and found.family == "GPT" and not found.is_known


@pytest.mark.parametrize("unknown", ["claude-opus-6-1", "claude-haiku-6", "anthropic.claude-sonnet-6", "claude-saga-1"])
def test_next_claude_is_of_its_family_and_has_no_row(unknown: str) -> None:
    found = find_model(unknown)
    assert found is not None and found.family == "Claude" and not found.is_known


@pytest.mark.parametrize(("unknown", "newest"), [("gemini-5-x", "gemini-4-carbon"), ("gemini-4-flash", "gemini-3.8-flash")])
def test_next_gemini_gets_the_newest_rules(unknown: str, newest: str) -> None:
    found = find_model(unknown)
    assert found is not None and not found.is_known
    assert find_profile(unknown) is find_profile(newest)
    assert not find_profile(unknown).honours_sampling and "minimal" not in find_profile(unknown).levels


def test_rows_are_in_order_and_every_family_has_rules_for_names_without_a_line() -> None:
    for family in (GEMINI, *CHAT_MODELS):
        assert "" in family.rows, family.title
        for line, rows in family.rows.items():
            versions = [version for version, _ in rows]
            assert versions == sorted(set(versions)), (family.title, line)


# Models without rules by version: embeddings, Perplexity's, whose names have none, and families whose own dialect knows what they take.
_WITHOUT_ROWS = re.compile(r"embed|(^|\.)amazon\.nova|^command-|^sonar")


@pytest.mark.parametrize("model", sorted({row["model"] for row in PRICES}))
def test_row_of_rules_names_the_version_of_every_model_with_a_price(model: str) -> None:
    if _WITHOUT_ROWS.search(model):
        return
    found = find_model(model)
    assert found is not None, f"{model} has a price and belongs to no family: add it to providers.model_families.py."
    assert found.is_known, f"{model} has a price, and no row of the family {found.family} names version {found.version}."


# Names in the docs and the catalogue: in backticks or quotes, with at least a digit of a version.
_NAME = re.compile(
    r"[`\"'](?:[\w.-]+/)*((?:gemini|grok|deepseek|kimi|glm|qwen|mistral|magistral|ministral|codestral|claude|gpt)-?[\w.:@-]*\d[\w.:@-]*)[`\"']",
    re.I,
)


def _names_in_docs() -> dict[str, str]:
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "providers" / "hosted" / "hosts.toml"]
    return {name: str(page.relative_to(ROOT)) for page in sorted(pages) for name in _NAME.findall(page.read_text())}


@pytest.mark.parametrize(("model", "page"), sorted(_names_in_docs().items()))
def test_row_of_rules_names_the_version_of_every_model_in_the_docs(model: str, page: str) -> None:
    found = find_model(model)
    if found is None and _WITHOUT_ROWS.search(model):
        return
    assert found is not None and found.is_known, f"{page} names {model}, for whose version no row has rules: {found}."
