"""The sandbox engine's process: python -m app.supervisor.run_sandbox HOST PORT, or `narthex sandbox`."""

import contextlib
import sys

from app.sandbox import serve


def main(host: str, port: str) -> None:
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after an orderly shutdown
        serve(host, int(port))


if __name__ == "__main__":
    main(*sys.argv[1:])
