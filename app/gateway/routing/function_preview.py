"""Previews of what a function would send, without sending it, for people who write templates."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from app.domain.functions import FunctionConfig
from app.gateway.functions.function_request import FunctionRequest
from app.gateway.functions.function_table import compile_function
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.request.reserved_fields import FUNCTION_FIELDS, function_fields
from app.gateway.routing.function_variants import write_variant
from app.gateway.routing.plan import choose_variant
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest
from providers.dialects.catalogue import CALLER_DIALECTS

PreviewDialect = Literal["openai_chat", "openai_responses", "anthropic_messages"]
# What a request needs besides, if the preview is only of a system template.
_PLACEHOLDERS: Mapping[str, Mapping[str, Any]] = {
    "openai_chat": {"messages": [{"role": "user", "content": "..."}]},
    "openai_responses": {"input": "..."},
    "anthropic_messages": {"messages": [{"role": "user", "content": "..."}], "max_tokens": 1024},
}


class FunctionPreview(Struct, frozen=True):
    """A preview of what a function would send. `request`: in the caller's own API; what goes to a target is translated from it.
    `input_tokens`: what limits reserve for it.
    """

    function: str
    variant: str
    model: str
    dialect: str
    input_tokens: int
    request: dict[str, Any]


class PreparedPreview(Struct, frozen=True):
    """A request that prepare_preview() has read, before its templates are rendered."""

    function_request: FunctionRequest
    variant: str
    dialect: PreviewDialect
    size_bytes: int

    async def render(self, large_requests: TeamLargeRequests) -> FunctionPreview:
        """Renders the templates as the request itself would. Raises InvalidRequest, and WorkTooLarge."""
        return self._finish(*await write_variant(large_requests, self.function_request, self.variant, self.size_bytes))

    def render_here(self) -> FunctionPreview:
        """Renders the templates in this process, whatever that takes. Raises InvalidRequest."""
        return self._finish(*self.function_request.write(self.variant))

    def _finish(self, written: InboundRequest, raw: bytes) -> FunctionPreview:
        made: dict[str, Any] = msgspec.json.decode(raw)
        function = self.function_request.function
        model = function.config.variants[self.variant].model
        return FunctionPreview(function.name, self.variant, model, self.dialect, written.input_tokens, {**made, "model": model})


def prepare_preview(
    name: str, function: FunctionConfig, request: Mapping[str, Any], variant: str | None = None, dialect: PreviewDialect = "openai_chat"
) -> PreparedPreview:
    """Prepares what the function makes of a request. Raises InvalidRequest as the request itself would.

    `request` is written as a caller sends it, without `model`; what every request must have gets a placeholder. Where `variant` is None, it
    is the default.
    """
    spoken = CALLER_DIALECTS[dialect]
    sent = msgspec.json.encode({**_PLACEHOLDERS[dialect], **request, "model": name})
    parsed = spoken.parse_request(sent)
    of_function = function_fields(parsed.body)
    parsed.body = Body({key: value for key, value in parsed.body.items() if key not in FUNCTION_FIELDS})
    chosen = choose_variant(name, function, variant or of_function.variant)
    function_request = FunctionRequest(compile_function(name, function), spoken, parsed, of_function.input)
    return PreparedPreview(function_request, chosen, dialect, len(sent))
