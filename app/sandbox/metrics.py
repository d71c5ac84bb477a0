"""The sandbox's metrics in Prometheus's text format: waiting and running requests, and how each ended."""

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """Has a registry of its own, so that several sandboxes in one process are counted separately."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.running = Gauge("sandbox_requests_running", "Requests being answered", registry=self._registry)
        self.waiting = Gauge("sandbox_requests_waiting", "Requests that wait for a free slot", registry=self._registry)
        # finished: sent completely. refused: our 4xx. failed: on demand. died: cut by us. aborted: the client disconnected.
        self.requests = Counter("sandbox_requests", "Requests by model and how they ended", ["model", "outcome"], registry=self._registry)
        self.prompt_tokens = Counter("sandbox_prompt_tokens", "Tokens read", registry=self._registry)
        self.completion_tokens = Counter("sandbox_completion_tokens", "Tokens of complete responses", registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)
