"""Operations of SGLang.

Sources: sglang/srt/entrypoints/http_server.py, managers/io_struct.py (0.5.23), read 2026-11.
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

_METRICS_REQUIREMENT = "start SGLang with --enable-metrics"
# Arguments of every way to update weights.
_WEIGHT_UPDATE_ARGUMENTS: Mapping[str, Argument] = {
    "flush_cache": boolean_argument(),
    "abort_all_requests": boolean_argument(),
    "weight_version": string_argument(),
}

SGLANG_OPERATIONS = EngineOperations(
    {
        "metrics": Operation("GET", ("/metrics",), startup_requirements={404: _METRICS_REQUIREMENT}),
        # A rid stops all requests whose ids begin with it; a missing rid is the empty one.
        "abort": Operation(
            "POST",
            ("/abort_request",),
            {
                "rid": string_argument(),
                "abort_all": boolean_argument(),
                "finished_reason": object_argument(),
                "abort_message": string_argument(),
            },
            exactly_one_of=("rid", "abort_all"),
        ),
        "sleep": Operation("POST", ("/release_memory_occupation",), {"tags": array_argument()}),
        "wake": Operation("POST", ("/resume_memory_occupation",), {"tags": array_argument()}),
        "flush_cache": Operation("POST", ("/flush_cache",), {"timeout": Argument("number", location="query")}),
        "pause": Operation("POST", ("/pause_generation",), {"mode": string_argument()}),
        "resume": Operation("POST", ("/continue_generation",), {"torch_empty_cache": boolean_argument()}),
        "update_weights": Operation(
            "POST",
            ("/update_weights_from_disk",),
            {
                "model_path": string_argument(required=True),
                "load_format": string_argument(),
                **_WEIGHT_UPDATE_ARGUMENTS,
                "is_async": boolean_argument(),
                "torch_empty_cache": boolean_argument(),
                "keep_pause": boolean_argument(),
                "recapture_cuda_graph": boolean_argument(),
                "token_step": integer_argument(),
                "manifest": object_argument(),
            },
        ),
        "init_weights": Operation(
            "POST",
            ("/init_weights_update_group",),
            {
                "master_address": string_argument(required=True),
                "master_port": integer_argument(required=True),
                "rank_offset": integer_argument(required=True),
                "world_size": integer_argument(required=True),
                "group_name": string_argument(),
                "backend": string_argument(),
            },
        ),
        "finish_weights": Operation("POST", ("/destroy_weights_update_group",), {"group_name": string_argument()}),
        "update_weights_from_tensor": Operation(
            "POST",
            ("/update_weights_from_tensor",),
            {"serialized_named_tensors": array_argument(required=True), "load_format": string_argument(), **_WEIGHT_UPDATE_ARGUMENTS},
        ),
        "update_weights_from_distributed": Operation(
            "POST",
            ("/update_weights_from_distributed",),
            {
                "names": array_argument(required=True),
                "dtypes": array_argument(required=True),
                "shapes": array_argument(required=True),
                "group_name": string_argument(),
                "load_format": string_argument(),
                **_WEIGHT_UPDATE_ARGUMENTS,
            },
        ),
        "update_weights_from_ipc": Operation(
            "POST", ("/update_weights_from_ipc",), {"zmq_handles": object_argument(required=True), **_WEIGHT_UPDATE_ARGUMENTS}
        ),
        "load_lora": Operation(
            "POST",
            ("/load_lora_adapter",),
            {"lora_name": string_argument(required=True), "lora_path": string_argument(required=True), "pinned": boolean_argument()},
        ),
        "unload_lora": Operation("POST", ("/unload_lora_adapter",), {"lora_name": string_argument(required=True)}),
        "generate": Operation("POST", ("/generate",), accepts_any_field=True, on_one_endpoint=True),
    },
    unavailable={
        "is_sleeping": "SGLang does not report it.",
        "terminate": "SGLang has no call for it: end its process where it runs.",
    },
)
