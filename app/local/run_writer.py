"""The writer process: python -m app.local.run_writer, or `narthex writer`. It ends on SIGTERM, with the spool emptied if it can be."""

import asyncio
import signal

import uvloop

from app import logs
from app.record.writer import write
from app.settings import Settings


def main(settings: Settings) -> None:
    logs.start(settings.log_level)
    uvloop.run(_write(settings))


async def _write(settings: Settings) -> None:
    stop = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    await write(settings, stop=stop)


if __name__ == "__main__":
    main(Settings.read())
