"""The facts that the doctor learns of a gateway over HTTP."""

import asyncio
from pathlib import Path

from app.doctor.gateway import collect_facts
from app.settings import Settings

_HEALTH = b'{"status": "ready", "configuration": 3, "postgres": "connected", "records_lost": 2}'


async def test_gateway_without_a_page_of_metrics_is_still_known_by_its_health(tmp_path: Path):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (head := await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /health/ready "):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(_HEALTH), _HEALTH))
        assert head.startswith(b"GET /metrics ")
        writer.close()  # a scrape that fails

    async with await asyncio.start_server(serve, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        facts = await collect_facts(Settings(home=tmp_path, port=port))
    assert facts.fault is None and facts.health is not None and facts.health.configuration == 3
    assert facts.records_lost == 2 and not facts.hangs
