"""Operations of LMDeploy's api_server, and of its proxy.

Source: its OpenAPI description; lmdeploy/serve/openai/endpoints and serve/proxy (0.18), read 2026-11.
"""

from collections.abc import Mapping

from providers.operations.operation import (
    Argument,
    EngineOperations,
    Operation,
    array_argument,
    boolean_argument,
    integer_argument,
    object_argument,
    string_argument,
)

_LORA_AT_STARTUP_ONLY = "LMDeploy takes adapters only when it starts: --adapters NAME=PATH."
_PROXY_REQUIREMENT = "this is a call of LMDeploy's proxy, started with --serving-strategy DistServe"
_PYTORCH_REQUIREMENT: Mapping[int, str] = {501: "start LMDeploy with --backend pytorch, on CUDA"}

LMDEPLOY_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",), startup_requirements={404: "start LMDeploy without --disable-metrics"}),
        "abort": Operation(
            "POST",
            ("/abort_request",),
            {
                "session_id": integer_argument(),
                "abort_all": boolean_argument(),
                "abort_message": string_argument(),
                "finished_reason": object_argument(),
            },
            startup_requirements={501: "start LMDeploy with --enable-abort-handling"},
            exactly_one_of=("session_id", "abort_all"),
        ),
        "sleep": Operation("POST", ("/sleep",), {"level": integer_argument(location="query")}),
        "wake": Operation("POST", ("/wakeup",), {"tags": array_argument(location="query")}),
        "is_sleeping": Operation("GET", ("/is_sleeping",)),
        "update_weights": Operation(
            "POST",
            ("/update_weights",),
            {"serialized_named_tensors": Argument("any", required=True), "load_format": string_argument(), "finished": boolean_argument()},
        ),
        # Since 0.18, only with its PyTorch backend (501 otherwise). The engine checks the fields of each.
        "init_weights": Operation(
            "POST", ("/init_weights_update_group",), accepts_any_field=True, startup_requirements=_PYTORCH_REQUIREMENT
        ),
        "update_weights_from_distributed": Operation(
            "POST", ("/update_weights_from_distributed",), accepts_any_field=True, startup_requirements=_PYTORCH_REQUIREMENT
        ),
        "update_weights_from_ipc": Operation(
            "POST", ("/update_weights_from_ipc",), accepts_any_field=True, startup_requirements=_PYTORCH_REQUIREMENT
        ),
        "finish_weights": Operation(
            "POST", ("/destroy_weights_update_group",), accepts_any_field=True, startup_requirements=_PYTORCH_REQUIREMENT
        ),
        "terminate": Operation(
            "GET", ("/terminate",), startup_requirements={400: "start LMDeploy with --allow-terminate-by-client"}, needs_confirmation=True
        ),
        "generate": Operation("POST", ("/generate",), accepts_any_field=True, on_one_endpoint=True),
        "engine_info": Operation("GET", ("/distserve/engine_info",)),
        "p2p_initialize": Operation(
            "POST",
            ("/distserve/p2p_initialize",),
            {
                "local_engine_id": string_argument(required=True),
                "local_engine_config": object_argument(required=True),
                "remote_engine_id": string_argument(required=True),
                "remote_engine_config": object_argument(required=True),
                "protocol": integer_argument(required=True),
                "rank": integer_argument(),
                "tcp_config": object_argument(),
                "rdma_config": object_argument(),
                "nvlink_config": object_argument(),
            },
        ),
        "p2p_connect": Operation(
            "POST",
            ("/distserve/p2p_connect",),
            {
                "protocol": integer_argument(required=True),
                "remote_engine_id": string_argument(required=True),
                "remote_engine_endpoint_info": object_argument(required=True),
                "remote_kvtransfer_endpoint_info": array_argument(required=True),
            },
        ),
        "p2p_drop_connect": Operation(
            "POST",
            ("/distserve/p2p_drop_connect",),
            {"engine_id": string_argument(required=True), "remote_engine_id": string_argument(required=True)},
        ),
        "free_cache": Operation(
            "POST",
            ("/distserve/free_cache",),
            {"remote_engine_id": string_argument(required=True), "remote_session_id": integer_argument(required=True)},
        ),
        "connection_warmup": Operation("POST", ("/distserve/connection_warmup",), startup_requirements={404: _PROXY_REQUIREMENT}),
        "gc": Operation("POST", ("/distserve/gc",), startup_requirements={404: _PROXY_REQUIREMENT}),
    },
    unavailable={
        "load_lora": _LORA_AT_STARTUP_ONLY,
        "unload_lora": _LORA_AT_STARTUP_ONLY,
        "flush_cache": "LMDeploy has no call for it; free_cache frees what another engine was going to fetch.",
    },
)
