"""Random weights (model.safetensors) for the model of tiny_model.py, for engines that make none themselves."""

import json
import random
import struct
from array import array
from pathlib import Path


def write_tiny_weights(folder: Path) -> None:
    """Write the weights next to the existing config.json. The file is the same each time.

    Format: https://huggingface.co/docs/safetensors (the length of a JSON head, the head, the numbers), read 2026-11.
    """
    config = json.loads((folder / "config.json").read_text())
    rng = random.Random(1)
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, shape in _shapes(
        config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"], config["vocab_size"]
    ).items():
        size = shape[0] * (shape[1] if len(shape) > 1 else 1)
        numbers = array("f", [1.0] * size if len(shape) == 1 else [rng.gauss(0, 0.02) for _ in range(size)]).tobytes()
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    head_bytes = json.dumps(head).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head_bytes)) + head_bytes + data)


def _shapes(width: int, inner: int, layers: int, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor, slowest dimension first."""
    layer_shapes = {
        "input_layernorm": (width,),
        "self_attn.q_proj": (width, width),
        "self_attn.k_proj": (width, width),
        "self_attn.v_proj": (width, width),
        "self_attn.o_proj": (width, width),
        "post_attention_layernorm": (width,),
        "mlp.gate_proj": (inner, width),
        "mlp.up_proj": (inner, width),
        "mlp.down_proj": (width, inner),
    }
    in_layers = {f"model.layers.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in layer_shapes.items()}
    other_shapes = {"model.embed_tokens.weight": (vocabulary, width), "model.norm.weight": (width,), "lm_head.weight": (vocabulary, width)}
    return other_shapes | in_layers
