"""httpx2.Response for a response whose head was read, made at a third of the cost."""

import httpx2

from providers.transport.response_stream import ResponseStream

_RESPONSE_ATTRIBUTES = vars(httpx2.Response(200, stream=httpx2.ByteStream(b"")))


def make_response(stream: ResponseStream) -> httpx2.Response:
    """A response whose head was read. A copy takes a third of the time of a new httpx2.Response, which also looks for a body to encode.

    Without its request: a stream may stay open for minutes, and would keep the request's bytes in memory.
    """
    received = stream.response
    response = object.__new__(httpx2.Response)
    response.__dict__.update(_RESPONSE_ATTRIBUTES)
    response.status_code = received.status
    response.headers = _ReceivedHeaders(received.headers)
    response.stream = stream
    response.history = []
    response.extensions = {"http_version": received.version, "reason_phrase": received.reason}
    return response


class _ReceivedHeaders(httpx2.Headers):
    """Headers that are bytes already: httpx2.Headers would look at the type of every name and value, and hosts send up to thirty."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        self._encoding = None  # without super().__init__(), which takes as long as the rest
        self._list = [(name, name.lower(), value) for name, value in fields]
