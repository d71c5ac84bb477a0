"""Names of hosts that could not be resolved to addresses."""

import socket


def is_unknown_name(fault: BaseException) -> bool:
    """Returns whether a fault says that a name has no address."""
    return isinstance(fault, socket.gaierror)
