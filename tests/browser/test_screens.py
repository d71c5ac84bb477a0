"""Each screen at each width, light and dark: it fits, a reader can read it (axe), and nothing is wrong in the console."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.browser.conftest import AXE, PICTURES, Faults, settle

SCREENS = (
    "",
    "/requests",
    "/requests?outcome=failed&range=30d",
    "/requests?show=refused",
    "/conversations",
    "/experiments",
    "/experiments/support",
    "/functions",
    "/functions/support",
    "/teams",
    "/teams/support",
    "/limits",
    "/limits?tab=limits",
    "/cost?by=model",
    "/fleet",
    "/models",
    "/models?tab=providers",
    "/models?tab=prices",
    "/models/sandbox",
    "/models?tab=providers&new=1",
    "/models?edit=llama-70b",
    "/models?tab=prices&new=1",
    "/functions?edit=support",
    "/requests?not_model=sandbox&not_model=support&range=30d",
    "/feedback?range=30d",
    "/feedback?metric=solved",
    "/feedback?tab=metrics",
    "/datasets",
    "/datasets?new=1",
    "/datasets/helpful",
    "/replays",
    "/replays?new=1",
    "/replays/{replay}",
    "/replays/{replay}?item={pair}",
    "/settings",
    "/settings?tab=doctor",
    "/settings?tab=retention",
    "/audit",
    "/audit?tab=versions&version=1",
    "/nothing",
)
SIZES = ((320, "light"), (390, "dark"), (1440, "light"), (1440, "dark"))


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_screens_fit_and_can_be_read(
    open_page: Callable[..., tuple[Any, Faults]], replayed: Mapping[str, str], width: int, theme: str
) -> None:
    page, faults = open_page(width, theme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    axe = AXE.read_text()
    wrong: dict[str, list[str]] = {}
    for screen in SCREENS:
        page.goto(f"/dashboard{screen.format_map(replayed)}")
        settle(page)
        wrong[screen] = look_at(page, axe) + faults.found
        faults.found.clear()
        page.screenshot(path=PICTURES / f"{_file_name(screen)}-{width}-{theme}.png", full_page=True)
    found = {screen: each for screen, each in wrong.items() if each}
    (PICTURES / f"wrong-{width}-{theme}.json").write_text(json.dumps(found, indent=1))
    assert found == {}


@pytest.mark.parametrize(("width", "theme"), SIZES)
def test_drawer_fits_and_can_be_read(open_page: Callable[..., tuple[Any, Faults]], width: int, theme: str) -> None:
    page, faults = open_page(width, theme)
    axe = AXE.read_text()
    page.goto("/dashboard/requests?team=support")
    page.locator("table.list tbody tr a").first.click()
    for tab in ("said", "attempts", "cost", "feedback", "raw"):
        page.click(f"#tab-{tab}")
        settle(page)
        assert look_at(page, axe) + faults.found == [], tab
        page.screenshot(path=PICTURES / f"drawer-{tab}-{width}-{theme}.png")


def look_at(page: Any, axe: str) -> list[str]:
    """Returns what is wrong with the page that is shown."""
    found: list[str] = []
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    if beyond > 0:
        found.append(f"it is {beyond} pixels too wide")
    page.evaluate(axe)
    for violation in page.evaluate("axe.run().then((result) => result.violations)"):
        found.append(f"{violation['id']}: {violation['nodes'][0]['html'][:200]} {violation['nodes'][0].get('failureSummary', '')[:200]}")
    return found


def _file_name(screen: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in screen).strip("-") or "overview"
