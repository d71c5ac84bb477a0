"""Operations of vLLM.

Sources: vllm/entrypoints/serve/dev, serve/lora, rl/online, scale_out (0.32), read 2026-11.
"""

from providers.operations.operation import (
    EngineOperations,
    Operation,
    array_argument,
    boolean_argument,
    integer_argument,
    object_argument,
    string_argument,
)

_DEV_MODE_REQUIREMENT = "start vLLM with VLLM_SERVER_DEV_MODE=1"
_LORA_REQUIREMENT = "start vLLM with VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 and --enable-lora"
_ABORT_REQUIREMENT = "start vLLM with VLLM_SERVER_DEV_MODE=1, or with --enable-scale-out"
_SCALE_OUT_REQUIREMENT = "start vLLM with --enable-scale-out"

VLLM_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",)),
        # With no request_ids the first path aborts every request, and the second refuses or does nothing: aborting all of them has to be
        # requested. `abort_all` is our name for that, as other engines have it.
        "abort": Operation(
            "POST",
            ("/abort_requests", "/inference/v1/abort_requests"),
            {"request_ids": array_argument(), "abort_all": boolean_argument(location="nowhere")},
            startup_requirements={403: _ABORT_REQUIREMENT, 404: _ABORT_REQUIREMENT},
            exactly_one_of=("request_ids", "abort_all"),
        ),
        "sleep": Operation(
            "POST",
            ("/sleep",),
            {"level": integer_argument(location="query"), "mode": string_argument(location="query")},
            startup_requirements={404: _DEV_MODE_REQUIREMENT},
        ),
        "wake": Operation(
            "POST", ("/wake_up",), {"tags": array_argument(location="query")}, startup_requirements={404: _DEV_MODE_REQUIREMENT}
        ),
        "is_sleeping": Operation("GET", ("/is_sleeping",), startup_requirements={404: _DEV_MODE_REQUIREMENT}),
        "flush_cache": Operation(
            "POST",
            ("/reset_prefix_cache",),
            {"reset_running_requests": boolean_argument(location="query"), "reset_external": boolean_argument(location="query")},
            startup_requirements={404: _DEV_MODE_REQUIREMENT},
        ),
        "pause": Operation(
            "POST",
            ("/pause",),
            {"mode": string_argument(location="query"), "clear_cache": boolean_argument(location="query")},
            startup_requirements={404: _DEV_MODE_REQUIREMENT},
        ),
        "resume": Operation("POST", ("/resume",), startup_requirements={404: _DEV_MODE_REQUIREMENT}),
        "init_weights": Operation(
            "POST",
            ("/init_weight_transfer_engine",),
            {"init_info": object_argument(required=True)},
            startup_requirements={404: _DEV_MODE_REQUIREMENT},
        ),
        "start_weights": Operation("POST", ("/start_weight_update",), startup_requirements={404: _DEV_MODE_REQUIREMENT}),
        "update_weights": Operation(
            "POST", ("/update_weights",), {"update_info": object_argument(required=True)}, startup_requirements={404: _DEV_MODE_REQUIREMENT}
        ),
        "finish_weights": Operation(
            "POST", ("/finish_weight_update",), {"weight_version": string_argument()}, startup_requirements={404: _DEV_MODE_REQUIREMENT}
        ),
        "weight_version": Operation("GET", ("/weight_info",), startup_requirements={404: _DEV_MODE_REQUIREMENT}),
        "load_lora": Operation(
            "POST",
            ("/v1/load_lora_adapter",),
            {
                "lora_name": string_argument(required=True),
                "lora_path": string_argument(required=True),
                "load_inplace": boolean_argument(),
                "is_3d_lora_weight": boolean_argument(),
            },
            startup_requirements={404: _LORA_REQUIREMENT},
        ),
        "unload_lora": Operation(
            "POST",
            ("/v1/unload_lora_adapter",),
            {"lora_name": string_argument(required=True), "lora_int_id": integer_argument()},
            startup_requirements={404: _LORA_REQUIREMENT},
        ),
        "generate": Operation(
            "POST",
            ("/inference/v1/generate",),
            accepts_any_field=True,
            model_field="model",
            startup_requirements={403: _SCALE_OUT_REQUIREMENT, 404: _SCALE_OUT_REQUIREMENT},
            on_one_endpoint=True,
        ),
    },
    unavailable={"terminate": "vLLM has no call for it: end its process where it runs."},
)
