"""Configurations for coding agents: each is valid in its own form, has the key's models, and never the key."""

import json
import shlex
import tomllib

import pytest

from app.cli.clients.configurations import CONFIGURATIONS, KEY_VARIABLE, Model, Target

AWKWARD = 'it\'s `odd` $HOME "name"'
TARGET = Target("https://models.test", AWKWARD, [Model(AWKWARD, 200_000, ("chat", "tools")), Model("small", 8_000), Model("seer")])


def texts(client: str) -> list[str]:
    return [step.text for step in CONFIGURATIONS[client](TARGET)]


@pytest.mark.parametrize("client", CONFIGURATIONS)
def test_configuration_names_the_gateway_and_the_model(client: str) -> None:
    text = "\n".join(texts(client))
    assert "https://models.test" in text
    assert KEY_VARIABLE in text or "your key" in text


def test_configuration_of_codex_is_toml() -> None:
    document = tomllib.loads(texts("codex")[0])
    provider = document["model_providers"][document["model_provider"]]
    assert document["model"] == AWKWARD and provider["base_url"] == "https://models.test/v1"
    assert (provider["env_key"], provider["wire_api"]) == (KEY_VARIABLE, "responses")
    assert provider["model_catalog_url"] == "https://models.test/v1/models" and document["features"]["api_key_model_discovery"]


@pytest.mark.parametrize(("client", "variable"), [("claude-code", "ANTHROPIC_MODEL"), ("gemini-cli", "GEMINI_MODEL")])
def test_variables_survive_a_shell(client: str, variable: str) -> None:
    exported = dict(word.split("=", 1) for word in shlex.split(texts(client)[0]) if "=" in word)
    assert exported[variable] == AWKWARD and f"${KEY_VARIABLE}" in exported.values()


@pytest.mark.parametrize("client", ["opencode", "zed"])
def test_all_models_of_the_key_are_listed_with_their_bounds(client: str) -> None:
    document = json.loads(texts(client)[0])
    if client == "opencode":
        models = {name: each["limit"]["context"] for name, each in document["provider"]["narthex"]["models"].items()}
        assert document["model"] == f"narthex/{AWKWARD}"
    else:
        available = document["language_models"]["openai_compatible"]["Narthex"]["available_models"]
        models = {each["name"]: each["max_tokens"] for each in available}
        assert [each["capabilities"]["images"] for each in available] == [False, True, True]
    assert models == {AWKWARD: 200_000, "small": 8_000, "seer": 128_000}


@pytest.mark.parametrize("client", ["cursor", "jetbrains"])
def test_pages_of_settings_list_the_models_to_type(client: str) -> None:
    assert f"{AWKWARD}, small, seer" in texts(client)[0]
