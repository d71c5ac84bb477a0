"""What listens on an engine's usual port may be any program: nothing that it answers keeps `narthex up` from starting."""

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

import pytest

from app.supervisor import local_engines


@contextmanager
def endless(block: bytes, pause_s: float) -> Generator[int]:
    """The port of a server whose every answer goes on for as long as the test does."""
    ended = Event()

    class Endless(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while not ended.wait(pause_s):
                    self.wfile.write(block)
            except OSError:
                pass  # it hung up, as it should

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        answering = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        answering.start()
        try:
            yield server.server_port
        finally:
            ended.set()
            server.shutdown()
            answering.join()


@pytest.mark.parametrize(("block", "pause_s"), [(b"data: tick\n\n", 0.02), (b"x" * 65536, 0.0)], ids=["slow", "fast"])
def test_an_answer_without_an_end_is_not_waited_for(block: bytes, pause_s: float):
    offered: list[str] = []
    with endless(block, pause_s) as port:
        looking = Thread(target=lambda: offered.extend(local_engines.find_engines([port], own_ports=(), configured=())), daemon=True)
        looking.start()
        looking.join(10)
        ended = not looking.is_alive()
    assert ended and not offered
