"""Three small engines, and one gateway in front of those that are installed; each is a model named like its adapter."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager

import anthropic
import openai
import pytest

from tests.engines.environments import LLAMACPP, LLAMACPP_PYTHON, TRANSFORMERS, Environment
from tests.engines.running_narthex import Gateway, engine_configuration, running_narthex
from tests.engines.running_small_engines import running_llamacpp, running_llamacpp_python, running_transformers
from tests.engines.vllm.running_vllm import Engine

_ENGINES: dict[str, tuple[Environment, Callable[[], AbstractContextManager[Engine]]]] = {
    "llamacpp": (LLAMACPP, running_llamacpp),
    "llamacpp_python": (LLAMACPP_PYTHON, running_llamacpp_python),
    "transformers": (TRANSFORMERS, running_transformers),
}


def _engine(name: str) -> Generator[Engine]:
    environment, running = _ENGINES[name]
    if not environment.is_installed():
        pytest.skip(f"{environment.engine} is missing or out of date. `python -m tests.engines.install` makes {environment.venv.name}.")
    with running() as engine:
        yield engine


@pytest.fixture(scope="session")
def llamacpp() -> Iterator[Engine]:
    yield from _engine("llamacpp")


@pytest.fixture(scope="session")
def llamacpp_python() -> Iterator[Engine]:
    yield from _engine("llamacpp_python")


@pytest.fixture(scope="session")
def transformers() -> Iterator[Engine]:
    yield from _engine("transformers")


@pytest.fixture(scope="session")
def gateway(request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """The gateway. A test that uses it also requests its engine, and is skipped if that is not installed."""
    installed = [name for name, (environment, _) in _ENGINES.items() if environment.is_installed()]
    if not installed:
        pytest.skip("None of the small engines is installed. `python -m tests.engines.install` makes them.")
    configuration = "\n".join(engine_configuration(name, request.getfixturevalue(name), model=name) for name in installed)
    with running_narthex(configuration, installed) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def caller(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=gateway.base_url, api_key=gateway.key, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def anthropic_client(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.base_url.removesuffix("/v1"), api_key=gateway.key, max_retries=0, timeout=60) as client:
        yield client
