"""Prompts of completions, of which llama.cpp's servers take one in a request."""

from providers.canonical.errors import Unsupported
from providers.canonical.raw_json import Body
from providers.drop_policy import DropPolicy


def refuse_multiple_prompts(body: Body, drop_policy: DropPolicy, why: str) -> None:
    """Raises Unsupported for several prompts in one request, which cannot be dropped. A list of token ids is one prompt."""
    prompt = body.value("prompt")
    if isinstance(prompt, list) and not drop_policy.accepts("prompt") and len(prompt) > 1 and not isinstance(prompt[0], int):  # pyright: ignore[reportUnknownArgumentType]
        raise Unsupported(
            f"Several prompts in one request are not supported by {drop_policy.target_name}: {why} Send a request for each.",
            param="prompt",
        )
