"""Rules of Claude models by name: every line and version of the table of 2026-11, every spelling, and versions that nobody knows yet."""

import pytest

from providers.profiles.claude.models import NEWEST, NOT_CLAUDE, find_profile, parse_name, states_known_version

# thinking, how it is switched off, the highest effort while off, sampling, forced calls, prefill, system messages midway, bound blocks.
RULES = {
    "claude-fable-5-2": ("adaptive", "never", None, "never", False, False, "yes", "every", False),
    "claude-mythos-5-2": ("adaptive", "never", None, "never", False, False, "yes", "every", False),
    "claude-fable-5-1": ("adaptive", "never", None, "never", False, False, "yes", "new", False),
    "claude-mythos-5-1": ("adaptive", "never", None, "never", False, False, "yes", "no", False),
    "claude-fable-5": ("adaptive", "never", None, "never", True, False, "yes", "no", False),
    "claude-mythos-5": ("adaptive", "never", None, "never", True, False, "yes", "no", False),
    "claude-opus-5-5": ("adaptive", "never", None, "never", False, False, "yes", "new", False),
    "claude-sonnet-5-5": ("adaptive", "between_tools", "high", "never", False, False, "yes", "new", True),
    "claude-haiku-5-5": ("adaptive", "disabled", "high", "never", True, False, "yes", "every", True),
    "claude-opus-5": ("adaptive", "disabled", "high", "never", True, False, "yes", "no", False),
    "claude-sonnet-5": ("adaptive", "disabled", None, "never", True, False, "ignored", "no", False),
    "claude-opus-4-8": ("adaptive", "disabled", None, "never", True, False, "yes", "no", False),
    "claude-opus-4-7": ("adaptive", "disabled", None, "never", True, False, "refused", "no", False),
    "claude-opus-4-6": ("either", "disabled", None, "one", True, False, "refused", "no", False),
    "claude-sonnet-4-6": ("either", "disabled", None, "one", True, False, "refused", "no", False),
    "claude-opus-4-5": ("budget", "disabled", None, "one", True, True, "refused", "no", False),
    "claude-sonnet-4-5": ("budget", "disabled", None, "one", True, True, "refused", "no", False),
    "claude-haiku-4-5": ("budget", "disabled", None, "one", True, True, "refused", "no", False),
    "claude-opus-4-1": ("budget", "disabled", None, "one", True, True, "refused", "no", False),
    "claude-sonnet-4": ("budget", "disabled", None, "freely", True, True, "refused", "no", False),
    "claude-3-7-sonnet": ("budget", "disabled", None, "freely", True, True, "refused", "no", False),
    "claude-3-5-haiku": ("never", "disabled", None, "freely", True, True, "refused", "no", False),
    "claude-3-opus": ("never", "disabled", None, "freely", True, True, "refused", "no", False),
}
EFFORTS = {
    "claude-opus-4-5": ("low", "medium", "high"),
    "claude-opus-4-6": ("low", "medium", "high", "max"),
    "claude-sonnet-4-6": ("low", "medium", "high", "max"),
    "claude-opus-4-7": ("low", "medium", "high", "xhigh", "max"),
    "claude-haiku-5-5": ("low", "medium", "high", "xhigh", "max"),
    "claude-sonnet-4-5": (),
}


@pytest.mark.parametrize("name", RULES)
def test_claude_model_has_the_rules_of_its_version(name: str):
    profile = find_profile(name)
    assert RULES[name] == (
        *(profile.thinking_mode, profile.thinking_off, profile.max_effort_while_off, profile.sampling),
        *(profile.can_force_tool_call, profile.supports_prefill, profile.mid_system, profile.binds_thinking, profile.binds_account),
    )
    assert name not in EFFORTS or profile.efforts == EFFORTS[name]
    assert states_known_version(name)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-0", "claude-sonnet-4"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-opus-5-5@default", "claude-opus-5-5"),
        ("anthropic.claude-sonnet-4-20250514-v1:0", "claude-sonnet-4"),
        ("us.anthropic.claude-opus-5-20260724-v1:0", "claude-opus-5"),
        ("global.anthropic.claude-opus-5-5", "claude-opus-5-5"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/eu.anthropic.claude-haiku-5-5", "claude-haiku-5-5"),
        ("anthropic/claude-sonnet-4.6", "claude-sonnet-4-6"),
        ("anthropic/claude-opus-4.8:beta", "claude-opus-4-8"),
        ("anthropic/claude-3.7-sonnet", "claude-3-7-sonnet"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet"),
        ("anthropic.claude-3-7-sonnet-20250219-v1:0", "claude-3-7-sonnet"),
        ("Claude-Opus-5.5", "claude-opus-5-5"),
        ("databricks-claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("claude-opus-5-5-fast", "claude-opus-5-5"),
    ],
)
def test_claude_model_is_known_by_every_spelling_of_its_name(spelling: str, name: str):
    assert parse_name(spelling) == parse_name(name) or find_profile(spelling) is find_profile(name)
    assert find_profile(spelling) is find_profile(name) and states_known_version(spelling)


@pytest.mark.parametrize(
    ("name", "newest"),
    [
        ("claude-opus-6-1", "claude-opus-5-5"),
        ("claude-sonnet-5-6", "claude-sonnet-5-5"),
        ("anthropic/claude-sonnet-7.2", "claude-sonnet-5-5"),
        ("us.anthropic.claude-haiku-6-20270101-v1:0", "claude-haiku-5-5"),
        ("claude-fable-5-10", "claude-fable-5-2"),
        ("claude-opus-latest", "claude-opus-5-5"),
    ],
)
def test_claude_version_newer_than_all_known_has_the_newest_rules_of_its_line(name: str, newest: str):
    assert find_profile(name) is find_profile(newest) and not states_known_version(name)


def test_version_between_two_known_ones_has_the_rules_of_the_older():
    assert find_profile("claude-opus-5-4") is find_profile("claude-opus-5")
    assert find_profile("claude-haiku-5") is find_profile("claude-haiku-4-5")


@pytest.mark.parametrize("name", ["claude-saga-6", "claude-saga", "claude-latest", "my-claude"])
def test_claude_of_an_unknown_line_has_the_strictest_rules(name: str):
    assert find_profile(name) is NEWEST and not states_known_version(name)
    for known in RULES:
        profile = find_profile(known)
        assert not (NEWEST.can_force_tool_call and not profile.can_force_tool_call)
        assert NEWEST.binds_account >= profile.binds_account and NEWEST.supports_prefill <= profile.supports_prefill


def test_other_makers_models_have_no_rules_of_claude():
    assert find_profile("gpt-6.2-sol") is NOT_CLAUDE and find_profile("MiniMax-M3") is NOT_CLAUDE
