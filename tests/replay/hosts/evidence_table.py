"""The table of docs/providers.md: which features of each provider are tested, and by what evidence.

`python -m tests.replay.hosts.evidence_table` writes it; test_provider_evidence.py compares them. The features that a recording or a
constructed case shows are derived from its request and its expected response.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from providers.canonical.chat import Audio, ChatRequest, Content, File, Image, Reasoning, Text, ToolCall, ToolResult
from tests.replay.hosts.catalogue import HOSTS
from tests.replay.hosts.host import Host
from tests.replay.hosts.recordings import Recording
from tests.replay.hosts.unit_evidence import UNIT_EVIDENCE

PAGE = Path(__file__).parents[3] / "docs" / "providers.md"

TITLES: Mapping[str, str] = {
    "openai": "OpenAI",
    "anthropic": "Anthropic",
    "together": "Together AI",
    "deepseek": "DeepSeek",
    "fireworks": "Fireworks AI",
    "aws_bedrock": "AWS Bedrock",
    "aws_sagemaker": "AWS SageMaker",
    "gcp_vertex_gemini": "Vertex AI, Gemini",
    "gcp_vertex_anthropic": "Vertex AI, Claude",
    "google_ai_studio": "Google AI Studio",
    "mistral": "Mistral AI",
    "hyperbolic": "Hyperbolic",
    "xai": "xAI",
    "azure_openai": "Azure OpenAI",
    "groq": "Groq",
    "openrouter": "OpenRouter",
    "cohere": "Cohere",
    "perplexity": "Perplexity",
    "cerebras": "Cerebras",
}
FEATURES = (
    *("chat", "stream", "tools", "tools, streamed", "parallel calls", "tool choice", "tool results"),
    *("images", "documents", "audio", "structured output", "reasoning", "reasoning sent back"),
    *("prompt caching", "citations", "safety stops", "embeddings", "token counting", "usage", "errors"),
)
# Features for which every provider has evidence, except HOSTS_WITH_LITTLE_EVIDENCE.
CORE_FEATURES = ("chat", "stream", "tools", "usage", "errors")
HOSTS_WITH_LITTLE_EVIDENCE = ("hyperbolic", "aws_sagemaker")
# Adapters of which nothing was recorded; their pages and docs/providers.md say so.
UNRECORDED_ADAPTERS = frozenset({"moonshot", "zai", "alibaba"})


def features_shown(host: Host, recording: Recording) -> Iterator[str]:
    """The features that this exchange is evidence for."""
    if recording.status != 200:
        yield "errors"
        return
    chat, non_chat = host.chat(recording), host.non_chat(recording)
    if chat is not None:
        yield from _request_features(chat)
        yield from _response_features(host, recording)
    elif non_chat is not None and "embeddings" in non_chat.route:
        yield "embeddings"
    elif non_chat is not None and non_chat.route.endswith("count_tokens"):
        yield "token counting"


def _request_features(chat: ChatRequest) -> Iterator[str]:
    contents = [part for message in chat.messages for part in message.parts]
    kinds: Sequence[tuple[str, type[Content]]] = (("images", Image), ("documents", File), ("audio", Audio), ("tool results", ToolResult))
    yield from (name for name, kind in kinds if any(isinstance(part, kind) for part in contents))
    if any(isinstance(part, Reasoning | ToolCall) and part.opaque_state is not None for part in contents):
        yield "reasoning sent back"
    if any(isinstance(part, Reasoning) for part in contents):
        yield "reasoning sent back"
    if chat.tool_choice is not None and chat.tool_choice.mode != "auto":
        yield "tool choice"
    if chat.output is not None:
        yield "structured output"


def _response_features(host: Host, recording: Recording) -> Iterator[str]:
    situation = host.expected(recording)
    calls = [part for part in situation.parts if isinstance(part, ToolCall)]
    yield "stream" if recording.streamed else "chat"
    if calls:
        yield "tools"
        if recording.streamed:
            yield "tools, streamed"
    if len(calls) > 1:
        yield "parallel calls"
    if any(isinstance(part, Reasoning) for part in situation.parts):
        yield "reasoning"
    if any(isinstance(part, Text) and part.citations for part in situation.parts):
        yield "citations"
    if situation.finish == "content_filter":
        yield "safety stops"
    usage = situation.usage
    if usage is not None:
        yield "usage"
        if usage.cached or usage.cache_written:
            yield "prompt caching"


def evidence(host: Host, feature: str) -> str:
    """A cell of the table; empty if the feature is not tested."""
    showing = [recording for recording in host.recordings if feature in features_shown(host, recording)]
    if any(recording.is_evidence for recording in showing):
        return "**recorded**"
    if showing or feature in UNIT_EVIDENCE.get(host.folder, {}):
        return "constructed"
    return "–" if feature in host.missing_features else ""


def table() -> str:
    hosts = sorted(HOSTS, key=lambda host: [*TITLES].index(host.folder))
    lines = ["| | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
    for host in hosts:
        lines.append(f"| {TITLES[host.folder]} | " + " | ".join(evidence(host, feature) for feature in FEATURES) + " |")
    reasons: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for feature, why in host.missing_features.items():
            if evidence(host, feature) == "–":
                reasons.setdefault((TITLES[host.folder], why), []).append(feature)
    reasons_listed = [f"- {title}, {' and '.join(features)}: {why.rstrip('.')}." for (title, why), features in reasons.items()]
    return "\n".join([*lines, "", *reasons_listed]) + "\n"


if __name__ == "__main__":
    head = PAGE.read_text().partition("<!-- the table -->")[0]
    PAGE.write_text(f"{head}<!-- the table -->\n\n{table()}")
