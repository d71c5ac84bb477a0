"""The clients: the script of each, the API that it uses, and the checks that it makes."""

from dataclasses import dataclass, field

from tests.clients.install import HERE, LITELLM, PYTHON_CLIENTS

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
_PYTHON = (str(PYTHON_CLIENTS / "bin" / "python"),)
_LITELLM = (str(LITELLM / "bin" / "python"),)


@dataclass(frozen=True)
class Client:
    """A client library with one of its APIs.

    `surface`: the API or provider that the script uses. `shows_reasoning`: whether it shows its users the reasoning of that API.
    `returns_signatures`: whether it sends the reasoning's signature back, which comes in a field that it may not know.
    """

    interpreter: tuple[str, ...]
    script: str
    surface: str
    extra_checks: frozenset[str] = field(default=frozenset())
    usual_checks: frozenset[str] = _USUAL
    shows_reasoning: bool = True
    returns_signatures: bool = True

    @property
    def checks(self) -> frozenset[str]:
        return self.usual_checks | self.extra_checks

    def command(self) -> list[str]:
        return [*self.interpreter, str(HERE / "scripts" / self.script)]

    def __str__(self) -> str:
        name = self.script.partition(".")[0].removesuffix("_client")
        return name if self.surface in name else f"{name}-{self.surface}"


_BY_TOOL = frozenset({"structured_by_tool"})
_EMBEDDINGS = frozenset({"embeddings"})
_STRUCTURED_ONLY = STRUCTURED_CHECKS | {"image", "errors"}

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
        frozenset({"structured_by_tools_strict", "structured_by_json_schema"}),
        _STRUCTURED_ONLY,
    ),
    Client(_PYTHON, "instructor_client.py", "openai_responses", usual_checks=_STRUCTURED_ONLY),
    Client(_PYTHON, "instructor_client.py", "anthropic", usual_checks=_STRUCTURED_ONLY),
    Client(_LITELLM, "litellm_client.py", "openai", _EMBEDDINGS | {"responses"}, returns_signatures=False),
    Client(_LITELLM, "litellm_client.py", "anthropic"),
)
