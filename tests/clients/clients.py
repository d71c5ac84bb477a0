"""Which clients there are: a script of each, the API that it speaks, and what it checks there."""

from dataclasses import dataclass, field

from tests.clients.install import HERE, LITELLM, PYTHON_CLIENTS

TALK = frozenset({"text", "stream", "image"})
TOOLS = frozenset({"tools", "tools_streamed", "parallel", "parallel_streamed"})
STRUCTURED = frozenset({"structured", "structured_streamed"})
REASONING = frozenset({"reasoning", "reasoning_streamed", "reasoning_over_tools", "reasoning_over_tools_streamed"})
# These say nothing of the engine's dialect, so they are asked of one model only.
ONCE = frozenset({"errors", "stream_error", "abort", "embeddings", "models", "completions", "count_tokens", "stored", "responses"})

_USUAL = TALK | TOOLS | STRUCTURED | REASONING | {"errors", "abort"}
_NODE = ("node",)
_PYTHON = (str(PYTHON_CLIENTS / "bin" / "python"),)
_LITELLM = (str(LITELLM / "bin" / "python"),)


@dataclass(frozen=True)
class Client:
    """`surface`: what the script is told to speak. `sees_reasoning`: whether it shows its users what engines reason on that API.

    `keeps_seals`: whether it sends back what sealed that reasoning, which it got in a field that it may not know.
    """

    runs: tuple[str, ...]
    script: str
    surface: str
    more: frozenset[str] = field(default=frozenset())
    usual: frozenset[str] = _USUAL
    sees_reasoning: bool = True
    keeps_seals: bool = True

    @property
    def checks(self) -> frozenset[str]:
        return self.usual | self.more

    def command(self) -> list[str]:
        return [*self.runs, str(HERE / "scripts" / self.script)]

    def __str__(self) -> str:
        name = self.script.partition(".")[0].removesuffix("_client")
        return name if self.surface in name else f"{name}-{self.surface}"


_BY_TOOL = frozenset({"structured_by_tool"})
_EMBEDS = frozenset({"embeddings"})
_SHAPES = STRUCTURED | {"image", "errors"}

CLIENTS = (
    Client(_NODE, "openai_chat.mjs", "openai_chat", _EMBEDS | {"stream_error", "models", "completions"}),
    Client(_NODE, "openai_responses.mjs", "openai_responses", frozenset({"stored"})),
    Client(_NODE, "anthropic.mjs", "anthropic", frozenset({"count_tokens", "models"})),
    Client(_NODE, "ai.mjs", "openai_chat", _EMBEDS, sees_reasoning=False, keeps_seals=False),
    Client(_NODE, "ai.mjs", "openai_responses", _EMBEDS),
    Client(_NODE, "ai.mjs", "openai_responses_stored", usual=REASONING),
    Client(_NODE, "ai.mjs", "anthropic"),
    Client(_NODE, "ai.mjs", "compatible", _EMBEDS, keeps_seals=False),
    Client(_PYTHON, "langchain_client.py", "openai_chat", _BY_TOOL | _EMBEDS, sees_reasoning=False, keeps_seals=False),
    Client(_PYTHON, "langchain_client.py", "openai_responses", _BY_TOOL | _EMBEDS),
    Client(_PYTHON, "langchain_client.py", "openai_responses_stored", usual=REASONING),
    Client(_PYTHON, "langchain_client.py", "anthropic", _BY_TOOL),
    Client(_PYTHON, "pydantic_ai_client.py", "openai_chat", _BY_TOOL, keeps_seals=False),
    Client(_PYTHON, "pydantic_ai_client.py", "openai_responses", _BY_TOOL),
    Client(_PYTHON, "pydantic_ai_client.py", "anthropic", _BY_TOOL),
    Client(_PYTHON, "instructor_client.py", "openai_chat", frozenset({"structured_by_tools_strict", "structured_by_json_schema"}), _SHAPES),
    Client(_PYTHON, "instructor_client.py", "openai_responses", usual=_SHAPES),
    Client(_PYTHON, "instructor_client.py", "anthropic", usual=_SHAPES),
    Client(_LITELLM, "litellm_client.py", "openai", _EMBEDS | {"responses"}, keeps_seals=False),
    Client(_LITELLM, "litellm_client.py", "anthropic"),
)
