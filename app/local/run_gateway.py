"""One gateway process, as the supervisor starts it: python -m app.local.run_gateway NAME DESCRIPTOR, the latter a listening socket."""

import socket
import sys

from app.local import secret_key
from app.main import run_worker
from app.settings import Settings


def main(name: str, descriptor: str) -> None:
    run_worker(secret_key.found(Settings.read()), sockets=[socket.socket(fileno=int(descriptor))], name=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
