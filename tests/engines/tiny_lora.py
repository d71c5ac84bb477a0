"""A LoRA adapter of large random weights for tiny_model, so that the model writes different text with it."""

import json
import random
from array import array
from pathlib import Path

RANK = 8
_LAYERS, _WIDTH = 2, 128
_CONFIG = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "base_model_name_or_path": "tiny",
    "r": RANK,
    "lora_alpha": 8 * RANK,
    "target_modules": ["q_proj", "v_proj"],
    "bias": "none",
}


def write_tiny_lora(folder: Path, seed: int) -> None:
    """Write the adapter in PEFT's format. A safetensors file has the length of its head in 8 bytes, the head (JSON), and the numbers."""
    rng = random.Random(seed)
    head: dict[str, object] = {}
    numbers = array("f")
    for layer in range(_LAYERS):
        for module in ("q_proj", "v_proj"):
            for half, shape in (("A", [RANK, _WIDTH]), ("B", [_WIDTH, RANK])):
                begin = len(numbers) * 4
                numbers.extend(rng.gauss(0, 1) for _ in range(RANK * _WIDTH))
                name = f"base_model.model.model.layers.{layer}.self_attn.{module}.lora_{half}.weight"
                head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, len(numbers) * 4]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(_CONFIG))
    head_bytes = json.dumps(head).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(head_bytes).to_bytes(8, "little") + head_bytes + numbers.tobytes())
