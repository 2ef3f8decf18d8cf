#!/usr/bin/env python3
"""Makes models/quickstart from a case of the corpus. Needs Python only.

The module is a PyTorch encoder layer, lowered by torch_xla. Its one argument is
a user input; its weights have the keys that PyTorch's state dict gives them.
"""

import json
import pathlib
import shutil

CASE = "tx_model__encoder_layer__f32"
# Key of each parameter, by number. torch_xla also lifts the attention's scale.
KEYS = [
    "norm2.weight",
    "linear2.bias",
    "linear2.weight",
    "linear1.bias",
    "linear1.weight",
    "norm1.weight",
    "self_attn.out_proj.bias",
    "self_attn.out_proj.weight",
    "self_attn.in_proj_bias",
    "self_attn.in_proj_weight",
    "src",
    "self_attn.scale",
    "norm1.bias",
    "norm2.bias",
]
USER_INPUT = "src"


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    case, out = root / "corpus" / CASE, root / "models" / "quickstart"
    meta = json.loads((case / "meta.json").read_text())
    (out / "weights").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(case / "module.pb", out / "module.pb")
    inputs = []
    for key, tensor in zip(KEYS, meta["inputs"], strict=True):
        user = key == USER_INPUT
        file = "input.npy" if user else f"weights/{key}.npy"
        shutil.copyfile(case / tensor["file"], out / file)
        role = "user" if user else "weight"
        inputs.append({"role": role, "key": key, "dtype": tensor["dtype"], "shape": tensor["shape"], "file": file})
    (result,) = meta["outputs"]
    shutil.copyfile(case / result["file"], out / "golden.npy")
    signature = {
        "name": "quickstart",
        "source": f"corpus/{CASE}",
        "inputs": inputs,
        "outputs": [{"key": "output", "dtype": result["dtype"], "shape": result["shape"], "file": "golden.npy"}],
        "tolerance": meta["tolerance"],
    }
    (out / "signature.json").write_text(json.dumps(signature, indent=1) + "\n")


if __name__ == "__main__":
    main()
