"""URLs of hosts and engines: where each dialect and each route is, below a base URL with or without its version segment (/v1)."""

from collections.abc import Mapping

import httpx2

# Below a base URL with its version segment.
DIALECT_PATHS: Mapping[str, str] = {
    "openai_chat": "/chat/completions",
    "openai_completions": "/completions",
    "openai_responses": "/responses",
    "openai_input_tokens": "/responses/input_tokens",
    "openai_embeddings": "/embeddings",
    "anthropic_messages": "/messages",
    "anthropic_count_tokens": "/messages/count_tokens",
}
# Below the server's root.
ROOT_PATHS: Mapping[str, str] = {"vllm_generate": "/inference/v1/generate", "ollama_chat": "/api/chat"}


def dialect_url(base_url: str, dialect: str) -> httpx2.URL:
    """Returns the URL at which a dialect is served.

    The dialect of an engine route (providers/engine_routes) is its path, such as /v1/rerank.
    """
    if dialect.startswith("/v1/"):
        return httpx2.URL(with_version_segment(base_url) + dialect.removeprefix("/v1"))
    root_path = dialect if dialect.startswith("/") else ROOT_PATHS.get(dialect)
    if root_path is not None:
        return httpx2.URL(server_root(base_url) + root_path)
    return httpx2.URL(with_version_segment(base_url) + DIALECT_PATHS[dialect])


def with_version_segment(base_url: str) -> str:
    """A base URL whose path has a version segment: its own, or /v1."""
    base = base_url.rstrip("/")
    path = httpx2.URL(base).path
    has_version = any(part[:1] == "v" and part[1:2].isdigit() for part in path.split("/"))
    return base if has_version else base + "/v1"


def server_root(base_url: str) -> str:
    """The base URL without its version segment: where an engine's own routes are (/version, /health)."""
    base = base_url.rstrip("/")
    head, _, last = base.rpartition("/")
    return head if last[:1] == "v" and last[1:].isdigit() and not head.endswith("/") else base
