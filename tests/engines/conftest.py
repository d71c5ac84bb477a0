"""One real vLLM and one gateway in front of it, for all engine tests, which run with `-m engines`."""

from collections.abc import Iterator

import pytest

from tests.engines.install import VENV, is_installed
from tests.engines.running_narthex import Gateway, engine_configuration, running_narthex
from tests.engines.vllm.running_vllm import Engine, running_vllm


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "engines: needs a real engine, which takes a minute to start; run by `make test-engines`")


@pytest.fixture(scope="session")
def vllm() -> Iterator[Engine]:
    """A real vLLM with a tiny random model."""
    if not is_installed():
        pytest.skip(f"No real vLLM here: {VENV.name} is missing or out of date. `python -m tests.engines.install` makes it.")
    with running_vllm(VENV) as engine:
        yield engine


@pytest.fixture(scope="session")
def narthex(vllm: Engine) -> Iterator[Gateway]:
    """A complete gateway with embedded stores, whose model `tiny` is served by that vLLM."""
    with running_narthex(engine_configuration("vllm", vllm)) as gateway:
        yield gateway
