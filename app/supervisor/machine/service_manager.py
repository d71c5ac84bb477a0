"""Notices to systemd about the supervisor: that everything answers, and that it is stopping.

The protocol is that of sd_notify(3), for a service with Type=notify.
"""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Sends READY=1 or STOPPING=1; does nothing where no service manager listens."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, contextlib.suppress(OSError):
        sender.connect("\0" + address[1:] if address.startswith("@") else address)
        sender.sendall(state.encode())
