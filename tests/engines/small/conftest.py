"""Three small engines, and one gateway before those of them that are installed; each is a model by the name of its adapter."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager

import anthropic
import openai
import pytest

from tests.engines.installing import LLAMACPP, LLAMACPP_PYTHON, TRANSFORMERS, Environment
from tests.engines.running_narthex import Gateway, running_narthex, serving
from tests.engines.running_small import running_llamacpp, running_llamacpp_python, running_transformers
from tests.engines.running_vllm import Engine

_ENGINES: dict[str, tuple[Environment, Callable[[], AbstractContextManager[Engine]]]] = {
    "llamacpp": (LLAMACPP, running_llamacpp),
    "llamacpp_python": (LLAMACPP_PYTHON, running_llamacpp_python),
    "transformers": (TRANSFORMERS, running_transformers),
}


def _engine(name: str) -> Generator[Engine]:
    environment, running = _ENGINES[name]
    if not environment.is_installed():
        pytest.skip(f"{environment.engine} is not here, or out of date. `python -m tests.engines.install` makes {environment.venv.name}.")
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
def door(request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """The gateway. A test that uses it asks for its engine, too, and is skipped where that is not."""
    there = [name for name, (environment, _) in _ENGINES.items() if environment.is_installed()]
    if not there:
        pytest.skip("None of the small engines is here. `python -m tests.engines.install` makes them.")
    told = "\n".join(serving(name, request.getfixturevalue(name), model=name) for name in there)
    with running_narthex(told, there) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def caller(door: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=door.base_url, api_key=door.key, max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def anthropics(door: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=door.base_url.removesuffix("/v1"), api_key=door.key, max_retries=0, timeout=60) as client:
        yield client
