"""One gateway process, as the supervisor starts it: python -m app.supervisor.run_gateway NAME DESCRIPTOR [DESCRIPTOR].

The descriptors are those of listening sockets: the callers', then the admin API's if it has one of its own.
"""

import socket
import sys

from app.main import run_worker
from app.settings import Settings
from app.supervisor import secret_key


def main(name: str, *descriptors: str) -> None:
    listeners = [socket.socket(fileno=int(each)) for each in descriptors]
    for listener in listeners:
        # Otherwise a process that the worker starts keeps the port open while the worker drains, and new connections wait for nobody.
        listener.set_inheritable(False)
    run_worker(secret_key.resolve(Settings.read()), sockets=listeners, name=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
