"""Requests that come in one read, as nearly all do: providers.wire reads them, and the parser of HTTP all others."""

from typing import Any, cast

from app.api.server.http_call import HttpCall
from app.api.server.http_limits import BoundedHttpProtocol
from providers import wire

# The whole of a head and a body that is buffered whoever sends it.
_MOST_BYTES = 32 * 1024


class WholeRequestProtocol(BoundedHttpProtocol):
    """takes_whole() does what the parser's callbacks would do, for a call of an inference route that waits for nobody."""

    _in_request = True  # a connection that sends nothing counts as one that has begun a request

    def takes_whole(self, data: bytes) -> bool:
        """Whether the data was one request, and its call has begun. Nothing has changed if not."""
        previous: Any = self.cycle
        if previous is None:
            is_between = self.headers is None  # pyright: ignore[reportUnnecessaryComparison]
        else:
            is_between = not self._in_request and previous.response_complete and not previous.more_body
        if not is_between or self._head_bytes or self.pipeline or self.input_ended or len(data) > _MOST_BYTES:
            return False
        request = wire.parse_request(data)
        handler = None if request is None else self.call_handlers.get(request[0])
        if request is None or handler is None or self.transport.is_closing():
            return False
        path, self.headers, body = request
        self.url = path.encode("ascii")
        self._in_head = self._in_request = self.expect_100_continue = False
        self.waits_since = None
        peer = self.client[0] if self.client else None
        call = HttpCall(self, handler, "POST", path, self.headers, peer, http_1_0=False, keep_alive=True)
        self.cycle = self.active_cycle = cast(Any, call)
        call.receive_body(body)
        call.on_body_complete()
        return True
