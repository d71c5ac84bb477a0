"""A company's editor applies a file of 15,000 models: teams whose requests are served meanwhile do not notice."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tests.support.two_teams import TwoTeams, two_teams

_MODELS = 15_000
_MAX_P99_S = 0.05
_MAX_ROUNDS = 5
PATH = "/admin/v1/configuration"


@pytest.fixture(scope="module")
async def teams() -> AsyncGenerator[TwoTeams]:
    async with two_teams() as started:
        yield started


def _configuration(output_tokens: int) -> bytes:
    provider = '[providers.large-file]\nadapter = "openai"\nbase_url = "http://127.0.0.1:9"\n'
    model = '[models.large-file-{}]\ntargets = [{{ provider = "large-file", model = "m{}" }}]\noutput_tokens = {}\n'
    return (provider + "".join(model.format(number, number, output_tokens) for number in range(_MODELS))).encode()


@pytest.mark.parametrize("dry_run", ["true", "false"], ids=["shown", "applied"])
async def test_thousands_of_changed_models_delay_no_request(teams: TwoTeams, dry_run: str):
    """One round without delay is enough, as the machine's other work only ever adds to it; every round changes all models."""
    rounds: list[str] = []
    async with teams.service.admin_client() as admin:
        for output_tokens in range(100, 100 + _MAX_ROUNDS):
            headers = {"content-type": "application/toml", "if-match": "*"}
            applying = asyncio.create_task(
                admin.post(PATH, content=_configuration(output_tokens), params={"dry_run": dry_run}, headers=headers)
            )
            during = await teams.measure()
            applied = await applying
            assert applied.status_code == 200, applied.text[:500]
            assert during.statuses.keys() == {200}
            rounds.append(f"{during.p99_s * 1e3:.0f} ms, machine {during.slowdown:.1f} times as slow")
            if during.p99_s < _MAX_P99_S * during.slowdown:
                return
            await teams.measure()  # the new configuration is swapped in, and what was held is freed
    pytest.fail("; ".join(rounds))
