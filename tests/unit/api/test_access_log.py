"""The access log: what nobody reads is bounded, counted, and holds up nothing."""

import asyncio
import json
import os

from msgspec.structs import replace

from app.api.server.access_log import AccessLine, AccessLog

LINE = AccessLine("2026-11-28T00:00:00.000Z", "POST", "/v1/chat/completions", 200, 1.5, "t", "nx-0", "m", "i", "r", None)


def read_to_end(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read()


async def test_lines_are_written_whole_and_in_order():
    reader, writer = os.pipe()
    log = AccessLog(writer, lambda count: None)
    log.start()
    for number in range(100):
        log.add(replace(LINE, request_id=str(number)))
    await log.stop()
    os.close(writer)
    lines = [json.loads(line) for line in read_to_end(reader).splitlines()]
    assert [line["request_id"] for line in lines] == [str(number) for number in range(100)]
    assert lines[0]["from"] == "access" and lines[0]["trace_id"] is None


async def test_lines_that_nobody_reads_are_dropped_and_counted_and_the_loop_goes_on():
    reader, writer = os.pipe()
    dropped: list[int] = []
    log = AccessLog(writer, dropped.append)
    log.start()
    began = asyncio.get_running_loop().time()
    for _ in range(40):
        for _ in range(1000):
            log.add(LINE)
        log.flush()
        await asyncio.sleep(0)
    assert asyncio.get_running_loop().time() - began < 30  # the pipe holds 64 KiB: a write that waited would never end
    assert sum(dropped) > 10_000
    reading = asyncio.create_task(asyncio.to_thread(read_to_end, reader))
    await log.stop()
    os.close(writer)
    lines = (await reading).splitlines()
    assert len(lines) + sum(dropped) == 40_000 and all(json.loads(line) for line in lines)


async def test_reader_that_has_gone_does_no_harm():
    reader, writer = os.pipe()
    os.close(reader)
    log = AccessLog(writer, lambda count: None)
    log.start()
    log.add(LINE)
    await log.stop()
    os.close(writer)
