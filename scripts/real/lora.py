"""Writes LoRA adapters of the model of model.py, with random weights: lora.py MODEL FOLDER…"""

import json
import pathlib
import sys

RANK = 8


def make(model, folder, seed):
    import torch
    from safetensors.torch import save_file

    shape = json.loads((model / "config.json").read_text())
    hidden, heads = shape["hidden_size"], shape["num_attention_heads"]
    widths = {"q_proj": hidden, "v_proj": hidden // heads * shape["num_key_value_heads"]}
    torch.manual_seed(seed)
    weights = {}
    for layer in range(shape["num_hidden_layers"]):
        for part, width in widths.items():
            name = f"base_model.model.model.layers.{layer}.self_attn.{part}"
            weights[f"{name}.lora_A.weight"] = torch.randn(RANK, hidden) * 0.1
            weights[f"{name}.lora_B.weight"] = torch.randn(width, RANK) * 0.1
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / "adapter_model.safetensors")
    about = {"peft_type": "LORA", "base_model_name_or_path": str(model), "task_type": "CAUSAL_LM", "bias": "none"}
    about |= {"r": RANK, "lora_alpha": 2 * RANK, "lora_dropout": 0.0, "target_modules": list(widths)}
    (folder / "adapter_config.json").write_text(json.dumps(about))


if __name__ == "__main__":
    for number, target in enumerate(sys.argv[2:], 1):
        make(pathlib.Path(sys.argv[1]), pathlib.Path(target), number)
