"""Function variants: what a variant makes of a request, at once, in the thread for large ones, or in a process."""

import msgspec

from app.gateway.functions.function_request import FunctionRequest
from app.gateway.large_body.large_requests import TeamLargeRequests
from app.gateway.large_work.protocol import WriteTask
from providers.canonical.errors import InvalidRequest
from providers.canonical.raw_json import Body
from providers.dialect import InboundRequest


async def write_variant(
    large_requests: TeamLargeRequests, function_request: FunctionRequest, variant: str, size_bytes: int
) -> tuple[InboundRequest, bytes]:
    """Writes the request of a variant, as FunctionRequest.write() does. `size_bytes` is the size of the work.

    Raises InvalidRequest, and WorkTooLarge for what takes too long.
    """
    if function_request.is_bounded(variant):
        return await large_requests.run_if_large(size_bytes, function_request.write, variant)
    function, input_field = function_request.function, function_request.input_field
    task = WriteTask(
        function.name,
        msgspec.json.encode(function.config),
        function_request.dialect.name,
        variant,
        None if input_field is None else bytes(input_field),
    )
    sent = await large_requests.run_if_large(size_bytes, function_request.sent_body)
    outcome, written = await large_requests.run_in_process(task, sent)
    if outcome.refusal is not None:
        raise InvalidRequest(outcome.refusal, param=outcome.param)
    return await large_requests.run_if_large(len(written), lambda: function_request.finish(variant, Body.read(written)))
