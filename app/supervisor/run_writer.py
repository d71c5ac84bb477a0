"""The writer process: python -m app.supervisor.run_writer, or `narthex writer`. On SIGTERM it empties the spool if it can, and ends."""

import asyncio
import signal

import uvloop

from app import logs
from app.recording.writer import run_spool_writer
from app.settings import Settings


def main(settings: Settings) -> None:
    logs.configure(settings.log_level)
    uvloop.run(_write(settings))


async def _write(settings: Settings) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await run_spool_writer(settings, stop=stop)


if __name__ == "__main__":
    main(Settings.read())
