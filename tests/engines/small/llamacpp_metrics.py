"""The number of requests that llama.cpp's server is processing, from its metrics."""

import re
import time

import httpx2

from tests.engines.running_small_engines import cpu_time_s
from tests.engines.vllm.running_vllm import Engine


def requests_processing(engine: Engine) -> int:
    found = re.search(r"^llamacpp:requests_processing (\d+)", httpx2.get(f"{engine.base_url}/metrics", timeout=30).text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def reaches_processing(engine: Engine, requests: int, within_cpu_s: float) -> bool:
    """Returns whether it processes exactly so many requests at some moment before it has used so much processor time."""
    start = cpu_time_s(engine)
    while cpu_time_s(engine) - start < within_cpu_s:
        if requests_processing(engine) == requests:
            return True
        time.sleep(0.05)
    return False
