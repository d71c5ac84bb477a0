"""OpenAI's models by their names: efforts, whether they reason, and the API that takes their tools."""

import pytest

from providers.profiles.gpt.models import GptRules, find_rules

# Name -> efforts of Responses, whether it reasons by default, whether Chat takes its tools, whether Chat has it at all.
MODELS = {
    **dict.fromkeys(("gpt-5", "gpt-5-mini", "gpt-5-nano-2025-08-07"), ("minimal low medium high", True, True, True)),
    "gpt-5-chat-latest": ("", False, True, True),
    "gpt-5-pro": ("high", True, True, False),
    "gpt-5-codex": ("low medium high", True, True, False),
    "gpt-5.1": ("none low medium high", False, True, True),
    "gpt-5.1-codex-max": ("low medium high xhigh", True, True, False),
    "gpt-5.1-codex-mini": ("low medium high", True, True, False),
    "gpt-5.2": ("none low medium high xhigh", False, True, True),
    "gpt-5.2-chat-latest": ("medium", True, True, True),
    "gpt-5.2-pro-2025-12-11": ("medium high xhigh", True, True, False),
    "gpt-5.3-codex": ("none low medium high xhigh", False, True, False),
    **dict.fromkeys(("gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"), ("none low medium high xhigh", False, False, True)),
    "gpt-5.5": ("none low medium high xhigh", True, False, True),
    "gpt-5.5-pro": ("medium high xhigh", True, False, False),
    **dict.fromkeys(("gpt-5.6-sol", "gpt-5.6-terra", "gpt-5.6-luna"), ("none low medium high xhigh max", True, False, True)),
    **dict.fromkeys(("gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra"), ("none low medium high xhigh max", True, False, True)),
    **dict.fromkeys(("gpt-6-astra", "gpt-6.1-sol", "gpt-6.2-astra", "gpt-6.2-sol"), ("low medium high xhigh max", True, False, True)),
    # Made up: versions newer than all known ones have the newest rules, one between two those of the older.
    **dict.fromkeys(("gpt-6.3-sol", "gpt-7", "gpt-12.1-luna"), ("low medium high xhigh max", True, False, True)),
    "gpt-5.9-sol": ("none low medium high xhigh max", True, False, True),
    "gpt-7-codex": ("low medium high xhigh max", True, False, False),
    **dict.fromkeys(("o1", "o3-mini", "o4-mini", "ft:o4-mini-2025:acme"), ("low medium high", True, True, True)),
    **dict.fromkeys(("o3-pro", "o4-mini-deep-research", "codex-mini-latest"), ("low medium high", True, True, False)),
    **dict.fromkeys(
        ("gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "gpt-35-turbo", "chatgpt-4o-latest", "gpt-4-turbo"), ("", False, True, True)
    ),
    # Names of resellers and deployments.
    **dict.fromkeys(
        ("openai/gpt-5.6-sol", "openai.gpt-5.6-sol", "prod-GPT-5.6-sol"), ("none low medium high xhigh max", True, False, True)
    ),
}


def test_each_model_has_the_rules_of_its_version_and_line() -> None:
    found = {name: find_rules(name) for name in MODELS}
    assert {name: None if rules is None else _described(rules) for name, rules in found.items()} == MODELS


def _described(rules: GptRules) -> tuple[str, bool, bool, bool]:
    return " ".join(rules.efforts), rules.reasons_by_default, rules.has_tools_on_chat, rules.is_on_chat


@pytest.mark.parametrize("name", ["gpt-oss-120b", "gpt-5x", "omni-moderation", "foo-o3", "gpt-image-1", "text-embedding-3-small", "m", ""])
def test_another_name_has_no_rules(name: str) -> None:
    assert find_rules(name) is None


def test_chat_never_takes_the_effort_max() -> None:
    assert all("max" not in rules.chat_efforts for rules in map(find_rules, MODELS) if rules is not None)
