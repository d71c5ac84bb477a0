"""A role is offered nothing that it may not do: no act is shown that the API would refuse."""

import re
import uuid
from collections.abc import Callable
from typing import Any

import httpx2

from tests.browser.conftest import Faults, settle
from tests.support.processes.service import Service

OpenPage = Callable[..., tuple[Any, Faults]]

SCREENS = (
    *("/models", "/models?tab=providers", "/models?tab=prices", "/models/sandbox", "/functions", "/functions/support"),
    *("/experiments", "/experiments/support", "/teams", "/teams?tab=teams", "/teams/support", "/limits", "/limits?tab=limits"),
    *("/limits?tab=overrides", "/fleet", "/audit?tab=versions", "/datasets", "/replays", "/feedback?tab=metrics", "/cost", "/settings"),
    *("/requests", "/conversations", ""),
)
DEEP_LINKS = (
    *("/models?new=1", "/models?edit=sandbox", "/models?tab=providers&new=1", "/models?tab=prices&new=1", "/functions?edit=support"),
    *("/feedback?tab=metrics&new=1", "/teams?new=key", "/limits?new=budget", "/datasets?new=1", "/replays?new=1"),
)
ACT = re.compile(
    r"^(New|Change|Delete|Revoke|Rotate|Drain|Use again|Test|Restore|Amount|Override|Remove|Start|Ramp|Stop|Promote|End|Cancel|Go on|Build"
    r"|Store|Create|Save|Write|Check and review)\b"
)


def token_of(service: Service, role: str, team: str | None = None) -> str:
    name, headers = f"{role}-{uuid.uuid4().hex[:8]}", {"authorization": f"Bearer {service.admin_key}"}
    with httpx2.Client(base_url=f"{service.url}/admin/v1", headers=headers, timeout=60, trust_env=False) as admin:
        made = admin.post("/service-accounts", json={"name": name, "roles": [{"role": role} | ({"team": team} if team else {})]})
        made.raise_for_status()
        return admin.post(f"/service-accounts/{name}/tokens", json={"name": "t"}).raise_for_status().json()["token"]


def acts_of(page: Any, screens: tuple[str, ...]) -> tuple[dict[str, list[str]], list[str]]:
    """Returns the acts that each screen offers, and the requests of the page that were refused."""
    refused: list[str] = []

    def note(response: Any) -> None:
        if response.status == 403:
            refused.append(response.url)

    page.on("response", note)
    found: dict[str, list[str]] = {}
    for screen in screens:
        page.goto(f"/dashboard{screen}")
        settle(page)
        texts = page.locator("main button, main a.button, dialog button").all_inner_texts()
        found[screen] = [text for each in texts if ACT.match(text := " ".join(each.split()))]
    return {screen: acts for screen, acts in found.items() if acts}, refused


def test_a_viewer_is_offered_nothing_that_would_be_refused(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page(token=token_of(filled, "viewer"))
    assert acts_of(page, SCREENS + DEEP_LINKS) == ({}, [])


def test_an_owner_is_offered_what_a_viewer_is_not(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page()
    found, refused = acts_of(page, SCREENS)
    offered = {act for acts in found.values() for act in acts}
    assert {"New model", "New provider", "New price", "Change …", "Test …", "New key", "New team", "New budget"} <= offered
    assert {"Override …", "Drain …", "Restore …", "New dataset", "New replay", "New metric", "New function"} <= offered
    assert refused == []


def test_a_viewer_within_a_team_sees_their_team_and_no_acts(open_page: OpenPage, filled: Service) -> None:
    page, _ = open_page(token=token_of(filled, "viewer", "support"))
    page.goto("/dashboard")
    settle(page)
    names = page.locator("nav.menu li a").all_inner_texts()
    assert names == ["Overview", "Requests", "Conversations", "Feedback", "Datasets", "Replays", "Teams and keys", "Cost"]
    screens = ("", "/requests", "/conversations", "/feedback", "/datasets", "/replays", "/teams", "/teams/support", "/cost")
    assert acts_of(page, screens) == ({}, [])
