"""One gateway process, as the supervisor starts it: python -m app.supervisor.run_gateway NAME DESCRIPTOR (of a listening socket)."""

import socket
import sys

from app.main import run_worker
from app.settings import Settings
from app.supervisor import secret_key


def main(name: str, descriptor: str) -> None:
    listener = socket.socket(fileno=int(descriptor))
    # Otherwise a process that the worker starts keeps the port open while the worker drains, and new connections wait for nobody.
    listener.set_inheritable(False)
    run_worker(secret_key.resolve(Settings.read()), sockets=[listener], name=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
