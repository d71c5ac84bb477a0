"""The clients: the script of each, the API that it uses, and the checks that it makes."""

import sys
from dataclasses import dataclass, field

from tests.clients.install import CREWAI, FRAMEWORKS, HERE, LITELLM, PYTHON_CLIENTS

# The gateway's models, and what serves each.
MODELS = {
    "sandbox": "the sandbox",
    "scripted": "Chat",
    "responses": "Responses",
    "claude": "Anthropic",
    "gemini": "Gemini",
    "bedrock": "Bedrock",
}

BASIC_CHECKS = frozenset({"text", "stream", "image"})
TOOL_CHECKS = frozenset({"tools", "tools_streamed", "parallel", "parallel_streamed"})
STRUCTURED_CHECKS = frozenset({"structured", "structured_streamed"})
REASONING_CHECKS = frozenset({"reasoning", "reasoning_streamed", "reasoning_over_tools", "reasoning_over_tools_streamed"})
# These do not depend on the engine's dialect, so they run for one model only.
CHECKS_FOR_ONE_MODEL = frozenset(
    {"errors", "stream_error", "abort", "embeddings", "models", "completions", "count_tokens", "stored", "responses"}
)

_USUAL = BASIC_CHECKS | TOOL_CHECKS | STRUCTURED_CHECKS | REASONING_CHECKS | {"errors", "abort"}
_NODE = ("node",)
_PYTHON, _LITELLM, _FRAMEWORKS, _CREWAI = ((str(venv / "bin" / "python"),) for venv in (PYTHON_CLIENTS, LITELLM, FRAMEWORKS, CREWAI))
_AGENT = (sys.executable,)


@dataclass(frozen=True)
class Client:
    """A client library with one of its APIs."""

    interpreter: tuple[str, ...]
    script: str
    surface: str  # the API or provider that the script uses
    extra_checks: frozenset[str] = field(default=frozenset())
    usual_checks: frozenset[str] = _USUAL
    shows_reasoning: bool = True  # whether it shows its users the reasoning of that API
    returns_signatures: bool = True  # whether it sends the reasoning's signature back, which comes in a field that it may not know

    @property
    def checks(self) -> frozenset[str]:
        return self.usual_checks | self.extra_checks

    def command(self) -> list[str]:
        return [*self.interpreter, str(HERE / "scripts" / self.script)]

    def __str__(self) -> str:
        if self.script == "coding_agent.py":
            return self.surface
        name = self.script.partition(".")[0].removesuffix("_client")
        return name if self.surface in name else f"{name}-{self.surface}"


def _by_modes(*modes: str) -> frozenset[str]:
    """The checks of instructor's modes beside its default."""
    return frozenset(f"structured_by_{mode}" for mode in modes)


_BY_TOOL = frozenset({"structured_by_tool"})
_EMBEDDINGS = frozenset({"embeddings"})
_STRUCTURED_ONLY = STRUCTURED_CHECKS | {"image", "errors"}
_LOOP = frozenset({"tools", "tools_streamed"})
_READ_FILE = frozenset({"read_file"})

CLIENTS = (
    Client(_NODE, "openai_chat.mjs", "openai_chat", _EMBEDDINGS | {"stream_error", "models", "completions"}),
    Client(_NODE, "openai_responses.mjs", "openai_responses", frozenset({"stored"})),
    Client(_NODE, "anthropic.mjs", "anthropic", frozenset({"count_tokens", "models"})),
    Client(_NODE, "ai.mjs", "openai_chat", _EMBEDDINGS, shows_reasoning=False, returns_signatures=False),
    Client(_NODE, "ai.mjs", "openai_responses", _EMBEDDINGS),
    Client(_NODE, "ai.mjs", "openai_responses_stored", usual_checks=REASONING_CHECKS),
    Client(_NODE, "ai.mjs", "anthropic"),
    Client(_NODE, "ai.mjs", "compatible", _EMBEDDINGS, returns_signatures=False),
    Client(_PYTHON, "langchain_client.py", "openai_chat", _BY_TOOL | _EMBEDDINGS, shows_reasoning=False, returns_signatures=False),
    Client(_PYTHON, "langchain_client.py", "openai_responses", _BY_TOOL | _EMBEDDINGS),
    Client(_PYTHON, "langchain_client.py", "openai_responses_stored", usual_checks=REASONING_CHECKS),
    Client(_PYTHON, "langchain_client.py", "anthropic", _BY_TOOL),
    Client(_PYTHON, "pydantic_ai_client.py", "openai_chat", _BY_TOOL, returns_signatures=False),
    Client(_PYTHON, "pydantic_ai_client.py", "openai_responses", _BY_TOOL),
    Client(_PYTHON, "pydantic_ai_client.py", "anthropic", _BY_TOOL),
    Client(
        _PYTHON,
        "instructor_client.py",
        "openai_chat",
        _by_modes("tools_strict", "json_schema", "json", "json_o1", "md_json", "functions", "parallel_tools"),
        _STRUCTURED_ONLY,
    ),
    Client(_PYTHON, "instructor_client.py", "openai_responses", usual_checks=_STRUCTURED_ONLY),
    Client(
        _PYTHON,
        "instructor_client.py",
        "anthropic",
        _by_modes("anthropic_json", "anthropic_reasoning_tools", "anthropic_parallel_tools"),
        _STRUCTURED_ONLY,
    ),
    Client(_LITELLM, "litellm_client.py", "openai", _EMBEDDINGS | {"responses"}, returns_signatures=False),
    Client(_LITELLM, "litellm_client.py", "anthropic"),
    *(
        Client(_FRAMEWORKS, script, surface, usual_checks=_LOOP)
        for script, surfaces in (
            ("langgraph_client.py", ("openai_chat", "openai_responses", "anthropic")),
            ("llama_index_client.py", ("openai_chat", "openai_responses")),
            ("haystack_client.py", ("openai_chat", "openai_responses", "anthropic")),
            ("autogen_client.py", ("openai_chat",)),
            ("smolagents_client.py", ("openai_chat",)),
        )
        for surface in surfaces
    ),
    Client(_NODE, "librechat.mjs", "openai", usual_checks=_LOOP),
    Client(_NODE, "librechat.mjs", "anthropic", usual_checks=_LOOP),
    Client(_CREWAI, "crewai_client.py", "openai", usual_checks=_LOOP),
    Client(_CREWAI, "crewai_client.py", "anthropic", usual_checks=_LOOP),
    Client(_LITELLM, "dspy_client.py", "openai", usual_checks=frozenset({"tools"})),
    Client(_LITELLM, "dspy_client.py", "anthropic", usual_checks=frozenset({"tools"})),
    Client(_AGENT, "open_webui_client.py", "openai", frozenset({"models"}), frozenset({"text", "stream", "tools"})),
    Client(_AGENT, "coding_agent.py", "codex", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "claude_code", frozenset({"compact"}), usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "cline", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "continue_openai", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "continue_anthropic", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "opencode_compatible", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "opencode_responses", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "opencode_anthropic", usual_checks=_READ_FILE),
    Client(_AGENT, "coding_agent.py", "aider_openai", usual_checks=frozenset({"edit_file"})),
    Client(_AGENT, "coding_agent.py", "aider_anthropic", usual_checks=frozenset({"edit_file"})),
)
