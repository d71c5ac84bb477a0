"""Load of engines, as their pages of metrics show it."""

import pytest

from app.gateway.fleet.endpoint_load import RUNNING_REQUEST_TOKENS, WAITING_REQUEST_TOKENS, EndpointLoad
from providers.adapters.engine_load import EngineLoad, LoadMetrics, read_engine_load
from providers.catalogue import ENGINE_PROBES

VLLM_PAGE = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m}} 5"} 4.0 1760000000
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5
"""


def metrics_of(engine: str) -> LoadMetrics:
    metrics = ENGINE_PROBES[engine].load_metrics
    assert metrics is not None
    return metrics


def test_values_are_summed_over_labels_and_similar_names_left_out():
    assert read_engine_load(VLLM_PAGE, metrics_of("vllm")) == EngineLoad(7, 2, 0.5)


def test_metric_without_labels_on_the_first_line_and_no_line_break_at_the_end():
    page = b"llamacpp:requests_processing 1\nllamacpp:requests_deferred 4"
    assert read_engine_load(page, metrics_of("llamacpp")) == EngineLoad(1, 4, None)


@pytest.mark.parametrize("page", [b"", b"<html>", b"vllm:num_requests_running{", b"vllm:num_requests_running NaN\n", b"tgi_queue_size 3\n"])
def test_page_that_says_nothing_is_no_load(page: bytes):
    assert read_engine_load(page, metrics_of("vllm")) is None


def test_requests_of_others_count_and_ones_own_do_not():
    load = EndpointLoad()
    own = [load.begin_request(0, 0.0, awaits_first_block=False) for _ in range(3)]
    load.note_engine_load(EngineLoad(running=3, waiting=0, cache_usage=None))
    assert load.others_tokens == 0
    load.note_engine_load(EngineLoad(running=4, waiting=2, cache_usage=0.5))
    assert load.others_tokens == RUNNING_REQUEST_TOKENS + 2 * WAITING_REQUEST_TOKENS
    load.note_engine_load(EngineLoad(running=3, waiting=0, cache_usage=0.99))
    assert load.others_tokens > 3000
    load.note_engine_load(None)
    assert load.others_tokens == 0
    for each in own:
        each.end()
