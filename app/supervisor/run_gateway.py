"""One gateway process, as the supervisor starts it: python -m app.supervisor.run_gateway NAME DESCRIPTOR (of a listening socket)."""

import socket
import sys

from app.main import run_worker
from app.settings import Settings
from app.supervisor import secret_key


def main(name: str, descriptor: str) -> None:
    run_worker(secret_key.resolve(Settings.read()), sockets=[socket.socket(fileno=int(descriptor))], name=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
