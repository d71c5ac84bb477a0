"""The scan for local engines: any program may listen on an engine's usual port, and no response of it blocks `narthex up`."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from app.supervisor import local_engines


@contextmanager
def endless_server(block: bytes, pause_s: float) -> Generator[int]:
    """The port of a server whose responses last as long as the test."""
    ended = Event()

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not ended.wait(pause_s):
                    self.wfile.write(block)
            except OSError:
                pass  # the client disconnected, as it should

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        serving = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield server.server_port
        finally:
            ended.set()
            server.shutdown()
            serving.join()


@pytest.mark.parametrize(("block", "pause_s"), [(b"data: tick\n\n", 0.02), (b"x" * 65536, 0.0)], ids=["slow", "fast"])
def test_endless_response_on_an_engine_port_does_not_block_the_scan(block: bytes, pause_s: float):
    offered: list[str] = []
    with endless_server(block, pause_s) as port:
        scan = Thread(target=lambda: offered.extend(local_engines.find_engines([port], own_ports=(), configured=())), daemon=True)
        scan.start()
        scan.join(60)
        ended = not scan.is_alive()
    assert ended and not offered
