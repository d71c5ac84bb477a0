"""NARTHEX_DASHBOARD: where it is off, nothing leads to a dashboard, and the API reference is there with its files."""

import re
import warnings
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from litestar import Litestar
from litestar.exceptions import LitestarDeprecationWarning

from app.main import create_applications
from app.settings import Settings
from app.supervisor.banner import banner_text
from providers.transport.loop_turns import LoopTurns
from providers.transport.write_batcher import WriteBatcher

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def client_of(application: Litestar) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(cast(Any, application)), base_url="http://127.0.0.1:8787")


@pytest.fixture
async def without() -> AsyncGenerator[httpx2.AsyncClient]:
    settings = Settings(database_url="postgresql://nobody@127.0.0.1:9/none", redis_url="redis://127.0.0.1:9", dashboard="off")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)  # about the style of parameters
        applications = create_applications(settings, WriteBatcher(), LoopTurns(), name="switch")
    async with client_of(applications.callers) as client:
        yield client


async def test_nothing_leads_to_a_dashboard_that_is_off(without: httpx2.AsyncClient) -> None:
    for path in ("/dashboard", "/dashboard/requests", "/dashboard/static/icon.svg"):
        assert (await without.get(path, headers=BROWSER)).status_code == 404, path
    start = await without.get("/", headers=BROWSER)
    assert (start.status_code, start.headers["location"]) == (303, "/docs")
    assert "dashboard" not in (await without.get("/")).json()["paths"]
    assert not [path for path in (await without.get("/openapi.json")).json()["paths"] if path.startswith("/dashboard")]
    assert "Dashboard" not in banner_text(Settings(home=Path("/nowhere"), dashboard="off"), "nx-1", "nxo-1")


async def test_reference_is_whole_without_the_dashboard(without: httpx2.AsyncClient) -> None:
    page = await without.get("/docs")
    assert page.status_code == 200 and "data-dashboard" not in page.text
    files = re.findall(r'(?:src|href)="(/docs/static/[^"]+)"', page.text)
    assert files and {(await without.get(path)).status_code for path in files} == {200}


def test_banner_begins_with_the_link_that_signs_in() -> None:
    settings = Settings(home=Path("/nowhere"))
    lines = [line for line in banner_text(settings, "nx-1", "nxo-1").splitlines() if line]
    assert lines[1].split() == ["Dashboard", "http://127.0.0.1:8787/dashboard/sign-in#once=nxo-1"] and "signs you in once" in lines[2]
    assert "#once" not in banner_text(settings, "nx-1") and "sign in with the admin key" in banner_text(settings, "nx-1")
