"""The sandbox engine's process: python -m app.local.run_sandbox HOST PORT, or `narthex sandbox`."""

import sys

from app.local.sandbox import serve


def main(host: str, port: str) -> None:
    serve(host, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
