"""The whole service, as `narthex up` starts it: one for all stories, and as many more as a story wants of its own."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

NARTHEX = str(Path(sys.executable).with_name("narthex"))


@dataclass
class Service:
    """A running gateway. `url` is its root; SDKs want `url + "/v1"`."""

    home: Path
    url: str
    process: subprocess.Popen[bytes]
    environment: Mapping[str, str]

    @property
    def key(self) -> str:
        return (self.home / "first-key").read_text().strip()

    @property
    def admin_key(self) -> str:
        return (self.home / "admin-key").read_text().strip()

    def pid(self, name: str) -> int:
        return int((self.home / "run" / f"{name}.pid").read_text())

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """A narthex command on this service."""
        return subprocess.run(
            [NARTHEX, *arguments], input=stdin, env={**self.environment}, capture_output=True, text=True, timeout=60, check=False
        )

    def apply(self, toml: str, *more: str) -> str:
        done = self.run("apply", "-", "--yes", *more, stdin=toml)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, **options: Any) -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {self.key}", **options.pop("headers", {})}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, **options)

    async def wait_for_record(self, id: str, within_s: float = 15) -> dict[str, Any]:
        """What the admin API tells of an inference, once it is there."""
        async with httpx.AsyncClient(base_url=self.url, headers={"authorization": f"Bearer {self.admin_key}"}, timeout=30) as client:
            until = time.monotonic() + within_s
            while True:
                found = await client.get(f"/admin/v1/inferences/{id}")
                if found.status_code == 200 or time.monotonic() > until:
                    assert found.status_code == 200, found.text
                    return found.json()
                await asyncio.sleep(0.1)


def start(within_s: float = 90, **settings: object) -> Service:
    """`narthex up` in a folder of its own. Settings by their names without NARTHEX_."""
    home = Path(tempfile.mkdtemp(prefix="narthex-test-"))
    home.chmod(0o711)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {f"NARTHEX_{name.upper()}": str(value) for name, value in settings.items()}
    unset = {name: value for name, value in os.environ.items() if not name.startswith("NARTHEX_")}
    environment = {**unset, "NARTHEX_HOME": str(home), "NARTHEX_PORT": str(port), **given}
    with (home / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [NARTHEX, "up"], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    service = Service(home, f"http://127.0.0.1:{port}", process, environment)
    until = time.monotonic() + within_s
    while not is_ready(service.url):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise AssertionError(f"narthex up did not come up:\n{(home / 'up.log').read_text()}")
        time.sleep(0.1)
    return service


def is_ready(url: str) -> bool:
    try:
        return httpx.get(url + "/health/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def stop(service: Service) -> None:
    service.process.send_signal(signal.SIGTERM)
    try:
        service.process.wait(60)
    finally:
        if service.process.poll() is None:
            service.process.kill()
    shutil.rmtree(service.home, ignore_errors=True)
