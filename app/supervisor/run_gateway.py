"""One gateway process, as the supervisor starts it: python -m app.supervisor.run_gateway NAME DESCRIPTOR [DESCRIPTOR].

The descriptors are those of listening sockets: the callers', then the admin API's if it has one of its own.
"""

import socket
import sys

from app.api.server.tls_certificate import BadCertificate
from app.main import run_worker
from app.settings import Settings
from app.supervisor.machine import secret_key


def main(name: str, *descriptors: str) -> None:
    listeners = [socket.socket(fileno=int(each)) for each in descriptors]
    for listener in listeners:
        # Otherwise a process that the worker starts keeps the port open while the worker drains, and new connections wait for nobody.
        listener.set_inheritable(False)
    try:
        run_worker(secret_key.resolve(Settings.read()), sockets=listeners, name=name)
    except BadCertificate as fault:  # it has become unusable since the supervisor has looked at it
        sys.exit(str(fault))


if __name__ == "__main__":
    main(*sys.argv[1:])
