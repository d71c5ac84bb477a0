"""Anthropic's count of tokens for Vertex's Gemini models; its Claude counts for itself, in Anthropic's own words.

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens, read 2026-11.
"""

from collections.abc import Callable

from providers.errors import NotOffered
from providers.foreign import Foreign
from providers.hosted.gemini_counting import counted, read_count
from providers.hosted.vertex_models import TOKENS, read_model
from providers.wire import Body


def _write(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    """Raises NotOffered for models that are not Google's."""
    asked = read_model(model)
    if asked.publisher != "google":
        raise NotOffered(f"Vertex's {model:.100} has no API to count tokens.", param="model")
    return counted(body, asked.name, may_drop)


VERTEX_COUNT = Foreign(TOKENS, _write, read_count)
