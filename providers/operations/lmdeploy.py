"""What LMDeploy's api_server, and its proxy before them, can be told to do.

Source: its OpenAPI description; lmdeploy/serve/openai/endpoints and serve/proxy (0.18), read 2026-11.
"""

from collections.abc import Mapping

from providers.operations.operation import Argument, Offer, Operation, flag, integer, items, string, table

_AT_START = "LMDeploy takes adapters at its start alone: --adapters NAME=PATH."
_PROXY = "this is a call of LMDeploy's proxy, started with --serving-strategy DistServe"
_PYTORCH: Mapping[int, str] = {501: "start LMDeploy with --backend pytorch, on CUDA"}

OFFER = Offer(
    {
        "metrics": Operation("GET", ("/metrics",), needs={404: "start LMDeploy without --disable-metrics"}),
        "abort": Operation(
            "POST",
            ("/abort_request",),
            {"session_id": integer(), "abort_all": flag(), "abort_message": string(), "finished_reason": table()},
            needs={501: "start LMDeploy with --enable-abort-handling"},
            either=("session_id", "abort_all"),
        ),
        "sleep": Operation("POST", ("/sleep",), {"level": integer(place="query")}),
        "wake": Operation("POST", ("/wakeup",), {"tags": items(place="query")}),
        "is_sleeping": Operation("GET", ("/is_sleeping",)),
        "update_weights": Operation(
            "POST",
            ("/update_weights",),
            {"serialized_named_tensors": Argument("any", required=True), "load_format": string(), "finished": flag()},
        ),
        # Since 0.18, of its PyTorch backend alone, which says 501 otherwise; what each takes the engine checks.
        "init_weights": Operation("POST", ("/init_weights_update_group",), open=True, needs=_PYTORCH),
        "update_weights_from_distributed": Operation("POST", ("/update_weights_from_distributed",), open=True, needs=_PYTORCH),
        "update_weights_from_ipc": Operation("POST", ("/update_weights_from_ipc",), open=True, needs=_PYTORCH),
        "finish_weights": Operation("POST", ("/destroy_weights_update_group",), open=True, needs=_PYTORCH),
        "terminate": Operation("GET", ("/terminate",), needs={400: "start LMDeploy with --allow-terminate-by-client"}, confirm=True),
        "generate": Operation("POST", ("/generate",), open=True, once=True),
        "engine_info": Operation("GET", ("/distserve/engine_info",)),
        "p2p_initialize": Operation(
            "POST",
            ("/distserve/p2p_initialize",),
            {
                "local_engine_id": string(required=True),
                "local_engine_config": table(required=True),
                "remote_engine_id": string(required=True),
                "remote_engine_config": table(required=True),
                "protocol": integer(required=True),
                "rank": integer(),
                "tcp_config": table(),
                "rdma_config": table(),
                "nvlink_config": table(),
            },
        ),
        "p2p_connect": Operation(
            "POST",
            ("/distserve/p2p_connect",),
            {
                "protocol": integer(required=True),
                "remote_engine_id": string(required=True),
                "remote_engine_endpoint_info": table(required=True),
                "remote_kvtransfer_endpoint_info": items(required=True),
            },
        ),
        "p2p_drop_connect": Operation(
            "POST", ("/distserve/p2p_drop_connect",), {"engine_id": string(required=True), "remote_engine_id": string(required=True)}
        ),
        "free_cache": Operation(
            "POST", ("/distserve/free_cache",), {"remote_engine_id": string(required=True), "remote_session_id": integer(required=True)}
        ),
        "connection_warmup": Operation("POST", ("/distserve/connection_warmup",), needs={404: _PROXY}),
        "gc": Operation("POST", ("/distserve/gc",), needs={404: _PROXY}),
    },
    without={
        "load_lora": _AT_START,
        "unload_lora": _AT_START,
        "flush_cache": "LMDeploy has no call for it; free_cache frees what another engine was to fetch.",
    },
)
