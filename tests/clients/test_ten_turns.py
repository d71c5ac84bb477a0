"""Claude Code and Codex make ten turns at hosts and engines that refuse what the real ones refuse, and never have to degrade."""

from collections.abc import AsyncGenerator

import pytest

from tests.clients.client_runs import run_client
from tests.clients.clients import CLIENTS
from tests.clients.install import CODING_AGENTS, is_installed
from tests.clients.strict_hosts import FINAL_TEXT, TURNS, StrictHost
from tests.integration.conftest import WORKERS
from tests.support.processes.service import Service
from tests.support.scripted_engine import ScriptedEngine

AGENTS = {str(client): client for client in CLIENTS if str(client) in ("claude_code", "codex")}
# A name that the agent knows, to which it sends its newest fields, and one that it does not. For names that it knows, Codex sends its tools
# in `additional_tools`, which only OpenAI takes.
NAMES = {"claude_code": ("claude-opus-5-5", "coder"), "codex": ("coder",)}
OPUS, SONNET = "us.anthropic.claude-opus-5-5", "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
TARGETS = {
    "InvokeModel": ("aws", OPUS, "anthropic_messages"),
    "InvokeModel, older": ("aws", SONNET, "anthropic_messages"),
    "Converse": ("aws", OPUS, "bedrock_converse"),
    "Converse, older": ("aws", SONNET, "bedrock_converse"),
    "Vertex": ("gcp", "claude-opus-5-5", "anthropic_messages"),
    "Vertex, older": ("gcp", "claude-sonnet-4-5@20250929", "anthropic_messages"),
    "template told": ("told", "qwen", "openai_chat"),
}
# Engines that do not say that their template is strict: the gateway learns it from the first refusal.
TEMPLATES = {
    "vLLM, Chat": ("vllm", "openai_chat"),
    "vLLM, Messages": ("vllm", "anthropic_messages"),
    "llama.cpp": ("llamacpp", "openai_chat"),
}
CASES = [(agent, name) for agent, names in NAMES.items() for name in names]


@pytest.fixture(scope="module")
async def host(service: Service) -> AsyncGenerator[ScriptedEngine]:
    assert is_installed(CODING_AGENTS), "Not installed, or out of date: `python -m tests.clients.install` installs it."
    engine = ScriptedEngine()
    await engine.start()
    root = f"http://127.0.0.1:{engine.port}"
    service.apply(f"""
        [providers]
        aws = {{ adapter = "bedrock", base_url = "{root}", options = {{ region = "us-east-1" }} }}
        gcp = {{ adapter = "vertex", base_url = "{root}", options = {{ project = "p", location = "us-east5" }} }}
        vllm = {{ adapter = "vllm", base_url = "{root}/vllm", options = {{ version = "0.32.0" }} }}
        told = {{ adapter = "vllm", base_url = "{root}/told", options = {{ version = "0.32.0", instructions = "first" }} }}
        llamacpp = {{ adapter = "llamacpp", base_url = "{root}/llamacpp" }}
    """)
    yield engine
    await engine.stop()


async def make_ten_turns(service: Service, host: ScriptedEngine, agent: str, name: str, target: tuple[str, str, str]) -> StrictHost:
    """The host, which the agent reached once for each turn, before it showed the last answer."""
    provider, model, dialect = target
    service.apply(f"""
        [models]
        "{name}" = {{ targets = [{{ provider = "{provider}", model = "{model}", dialect = "{dialect}" }}] }}
    """)
    strict_host = StrictHost()
    host.script = strict_host.script
    outcome = (await run_client(AGENTS[agent], service, name, ["ten_turns"]))["ten_turns"]
    assert "error" not in outcome, (strict_host.refused, outcome["error"])
    assert outcome["result"]["text"] == FINAL_TEXT
    assert strict_host.turns == [*range(TURNS)]
    return strict_host


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("agent", "name"), CASES)
async def test_agent_sends_ten_turns_of_which_none_is_refused(service: Service, host: ScriptedEngine, agent: str, name: str, target: str):
    strict_host = await make_ten_turns(service, host, agent, name, TARGETS[target])
    assert strict_host.refused == []


@pytest.mark.parametrize("target", TEMPLATES)
@pytest.mark.parametrize(("agent", "name"), CASES)
async def test_strict_template_refuses_no_turn_once_its_rule_is_learned(
    service: Service, host: ScriptedEngine, agent: str, name: str, target: str
):
    provider, dialect = TEMPLATES[target]
    # A model of its own, of which nothing was learned yet.
    strict_host = await make_ten_turns(service, host, agent, name, (provider, f"qwen-for-{agent}-{name}", dialect))
    # Each worker may meet the rule before it hears of it from the other.
    assert len(strict_host.refused) <= WORKERS
