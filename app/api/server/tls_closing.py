"""The end of a TLS connection: it is closed once the caller's machine has received everything, whether the caller says goodbye or not.

asyncio waits for the peer's close_notify. A client with a pool of connections does not read until its next request, so it never sends
one, and a gateway that drains would wait for it as long as it may. RFC 8446, section 6.1, does not make anybody wait.
"""

import asyncio
import fcntl
import struct
import termios

_FIRST_CHECK_S = 0.05
_MAX_CHECK_S = 0.5


def close_once_received(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
    """Closes a TLS transport in order, and then does not wait for the peer."""
    transport.close()
    loop.call_later(_FIRST_CHECK_S, _check, transport, loop, _FIRST_CHECK_S)


def _check(transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, after_s: float) -> None:
    try:
        socket = transport.get_extra_info("socket")
        # Bytes that the peer has not acknowledged (tcp(7), SIOCOUTQ). With none of them the buffers before the kernel's are empty, too.
        (unreceived,) = struct.unpack("i", fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4)))
    except (OSError, ValueError, AttributeError):
        return  # it is closed
    if not unreceived and not transport.get_write_buffer_size():
        transport.abort()
        return
    after_s = min(2 * after_s, _MAX_CHECK_S)
    loop.call_later(after_s, _check, transport, loop, after_s)
