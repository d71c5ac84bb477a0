"""GET /v1/models?client_version=VERSION: the catalogue of the Codex CLI, from what is configured."""

import httpx2
import pytest

from tests.support.processes.service import Service

# Without one of these, a release since 0.140 rejects the whole catalogue.
DEMANDED = {
    *("slug", "display_name", "description", "supported_reasoning_levels", "shell_type", "visibility", "supported_in_api", "priority"),
    *("availability_nux", "upgrade", "support_verbosity", "default_verbosity", "apply_patch_tool_type", "truncation_policy"),
    *("experimental_supported_tools", "input_modalities", "context_window", "base_instructions", "use_responses_lite"),
    *("supports_reasoning_summaries", "supports_parallel_tool_calls", "supports_search_tool", "service_tiers"),
}


@pytest.fixture(scope="module", autouse=True)
def models(service: Service) -> None:
    service.apply("""
        [providers]
        catalogue = { adapter = "openai", base_url = "http://127.0.0.1:9" }
        [models.catalogue-coder]
        targets = [{ provider = "catalogue", model = "m" }]
        context_length = 200000
        capabilities = ["chat", "tools", "reasoning"]
        [models.catalogue-embed]
        targets = [{ provider = "catalogue", model = "e" }]
        capabilities = ["embeddings"]
        [models.catalogue-plain]
        targets = [{ provider = "catalogue", model = "p" }]
    """)


async def test_every_model_can_be_chosen_in_codex(client: httpx2.AsyncClient):
    answer = await client.get("/v1/models", params={"client_version": "0.171.0"})
    assert set(answer.json()) == {"models"}
    by_name = {model["slug"]: model for model in answer.json()["models"]}
    assert "catalogue-embed" not in by_name and all(model.keys() >= DEMANDED for model in by_name.values())
    coder, plain = by_name["catalogue-coder"], by_name["catalogue-plain"]
    assert (coder["context_window"], coder["input_modalities"], coder["use_responses_lite"]) == (200000, ["text"], False)
    assert [level["effort"] for level in coder["supported_reasoning_levels"]] == ["low", "medium", "high"]
    assert (coder["default_reasoning_level"], coder["supports_parallel_tool_calls"]) == ("medium", True)
    assert (plain["context_window"], plain["supported_reasoning_levels"]) == (None, []) and plain["base_instructions"]
    assert len({model["priority"] for model in by_name.values()}) == len(by_name)


async def test_list_keeps_its_shape_without_the_parameter(client: httpx2.AsyncClient):
    assert (await client.get("/v1/models")).json()["object"] == "list"
