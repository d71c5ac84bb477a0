"""Anonymous requests begin one at each turn of the event loop; whoever has a credential, and health checks, wait for none of them."""

import asyncio
from typing import Any, cast

import pytest

from app.api.server.anonymous_requests import AnonymousRequests

KEY = (b"authorization", b"Bearer nx-1")
COOKIE = (b"cookie", b"any=1")


class Begun:
    """Counts the requests that have begun."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])


async def call(app: AnonymousRequests, path: str, *headers: tuple[bytes, bytes]) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app(cast(Any, {"type": "http", "path": path, "headers": list(headers)}), cast(Any, None), send)
    return sent


async def test_one_begins_at_each_turn_and_others_go_first():
    begun = Begun()
    app = AnonymousRequests(cast(Any, begun))
    waiting = [asyncio.create_task(call(app, "/docs")) for _ in range(50)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert 5 <= len(begun.paths) <= 10
    await call(app, "/v1/models", KEY)
    await call(app, "/health/ready")
    assert len(begun.paths) <= 12 and set(begun.paths) == {"/docs", "/v1/models", "/health/ready"}
    await asyncio.gather(*waiting)
    assert begun.paths.count("/docs") == 50


@pytest.mark.parametrize(
    ("path", "headers", "waits"),
    [("/v1/models", (), True), ("/docs", (KEY,), True), ("/dashboard/requests", (COOKIE,), True), ("/v1/models", (KEY,), False)],
)
async def test_so_many_wait_and_no_more(path: str, headers: tuple[tuple[bytes, bytes], ...], waits: bool):
    """A credential helps at a page that everybody may read no more than none."""
    begun = Begun()
    app = AnonymousRequests(cast(Any, begun))
    waiting = [asyncio.create_task(call(app, "/docs")) for _ in range(1_200)]
    await asyncio.sleep(0)
    sent = await call(app, path, *headers)
    assert [each["status"] for each in sent[:1]] == ([503] if waits else [])
    assert not waits or dict(sent[0]["headers"])[b"retry-after"] == b"1"
    await asyncio.gather(*waiting)
    assert len(begun.paths) == 1_000 + (not waits)
