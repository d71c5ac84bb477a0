"""The checks that are known to fail, and why: the words are those of the table in docs/clients.md."""

from collections.abc import Mapping

from tests.clients.clients import Client

_FOLLOWS_NO_PROMPT = "the sandbox's text is made up, and cannot follow the protocol that the prompt describes"
# Client, model -> check -> why.
_FAILURES: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("dspy-openai", "sandbox"): {"tools": _FOLLOWS_NO_PROMPT},
    ("dspy-anthropic", "sandbox"): {"tools": _FOLLOWS_NO_PROMPT},
    ("aider_openai", "sandbox"): {"edit_file": _FOLLOWS_NO_PROMPT},
    ("aider_anthropic", "sandbox"): {"edit_file": _FOLLOWS_NO_PROMPT},
    ("instructor-openai_chat", "sandbox"): {"structured_by_json": _FOLLOWS_NO_PROMPT, "structured_by_md_json": _FOLLOWS_NO_PROMPT},
    ("instructor-anthropic", "sandbox"): {"structured_by_anthropic_json": _FOLLOWS_NO_PROMPT},
}


def expected_failure(client: Client, model: str, check: str) -> str | None:
    """Returns why this check fails, or None if it works."""
    return _FAILURES.get((str(client), model), {}).get(check)
