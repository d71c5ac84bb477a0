"""How many requests llama.cpp's server is at work on, as its metrics tell."""

import re
import time

import httpx

from tests.engines.running_vllm import Engine


def requests_processing(engine: Engine) -> int:
    found = re.search(r"^llamacpp:requests_processing (\d+)", httpx.get(f"{engine.base_url}/metrics").text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def reaches_processing(engine: Engine, requests: int, within_s: float) -> bool:
    """Whether it is at work on so many in that time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if requests_processing(engine) == requests:
            return True
        time.sleep(0.05)
    return False
