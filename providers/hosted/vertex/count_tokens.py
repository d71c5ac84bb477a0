"""Anthropic's count_tokens for Gemini models on Vertex; Claude on Vertex has count_tokens itself.

Source: https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens, read 2026-11.
"""

from collections.abc import Callable

from providers.canonical.errors import OperationNotSupported
from providers.canonical.raw_json import Body
from providers.host_operation import HostOperation
from providers.hosted.gemini.count_tokens import read_count, write_counted_request
from providers.hosted.vertex.models import COUNT_TOKENS, parse_model


def _write_count_request(body: Body, model: str, may_drop: Callable[[str], bool]) -> tuple[Body, list[str]]:
    """Raises OperationNotSupported for models of other publishers."""
    vertex_model = parse_model(model)
    if vertex_model.publisher != "google":
        raise OperationNotSupported(f"Vertex's {model:.100} has no API for counting tokens.", param="model")
    return write_counted_request(body, vertex_model.name, may_drop)


VERTEX_COUNT_TOKENS = HostOperation(COUNT_TOKENS, _write_count_request, read_count)
