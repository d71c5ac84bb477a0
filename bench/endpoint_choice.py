"""Measures what choosing among a model's endpoints costs: `python -m bench.endpoint_choice`.

The figures are microseconds of processor time for each request.
"""

import json
import random
import sys
import time

from app.domain.routing import ModelConfig, ProviderConfig, Target
from app.gateway.fleet.fleet import Fleet
from app.settings import Settings
from app.store.configuration.snapshots import build_snapshot
from providers.catalogue import DIALECTS
from providers.transport.transport import Transport

_ROUNDS = 15
_REQUESTS_OF_ROUND = 100


def measure(endpoints: int, prompt_bytes: int) -> float:
    """Returns the microseconds per request of the best of several rounds, because other programs only make a round slower.

    Each request continues another chat.
    """
    addresses = tuple(f"http://127.0.0.1:{9_000 + number}" for number in range(endpoints))
    target = Target("engine", "m", endpoints=addresses)
    fleet = Fleet(Settings(), Transport(connections_per_origin=1))
    fleet.apply_snapshot(build_snapshot(1, {"engine": ProviderConfig("vllm")}, {"m": ModelConfig((target,))}))
    rng = random.Random(1)
    system = rng.randbytes(prompt_bytes // 4).hex()
    requests = [
        DIALECTS["openai_chat"].parse_request(
            json.dumps({"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}).encode()
        )
        for question in (rng.randbytes(prompt_bytes // 4).hex() for _ in range(_REQUESTS_OF_ROUND))
    ]
    best_s = float("inf")
    for _ in range(_ROUNDS):
        begun = time.process_time()
        for request in requests:
            choice = fleet.table.choose_endpoints(target, request, "team")
            endpoint = next(iter(choice))
            load = endpoint.load.begin_request(choice.begin(endpoint), time.monotonic(), awaits_first_block=True)
            load.mark_answered(time.monotonic())
            load.end()
        best_s = min(best_s, time.process_time() - begun)
    return best_s / _REQUESTS_OF_ROUND * 1e6


def main() -> None:
    for prompt_bytes in (600, 4_000, 100_000, 1_000_000):
        costs = "".join(f"{measure(endpoints, prompt_bytes):8.1f} us at {endpoints:2} endpoints" for endpoints in (1, 2, 8, 64))
        sys.stdout.write(f"{prompt_bytes:9} bytes:{costs}\n")


if __name__ == "__main__":
    main()
