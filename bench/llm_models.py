"""Make the models that `test_llm.py` runs: SmolLM2-135M's shape, random weights from a fixed seed.

    python bench/llm_models.py DIR                   # DIR/hf: the model for transformers
    python bench/llm_models.py DIR --genai PYTHON    # DIR/genai-fp32, DIR/genai-int4
    python bench/llm_models.py DIR --optimum PYTHON  # DIR/optimum-fp32

The exporters need different versions of transformers, so each is run by the interpreter of an environment
that has it: `pip install onnxruntime-genai==0.18.0 transformers==5.23.0 torch onnx onnx-ir` in one, `pip
install optimum-onnx==0.1.0 transformers==4.57.6 torch onnxruntime` in the other. The tokenizer is that of the
tests' exports; its 512 ids are a part of the vocabulary of 49152.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
TOKENIZER = HERE.parent / "tests/models/exports/optimum-llama"
SHAPE = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rope_theta": 100000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


def make(path: Path) -> None:
    """The model as transformers saves it, with logits that are neither flat nor a spike."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=0.041666)).eval()
    with torch.no_grad():
        model.model.norm.weight.fill_(3.0)
    model.save_pretrained(path)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"):
        if (TOKENIZER / name).is_file():
            shutil.copy(TOKENIZER / name, path)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the models of test_llm.py.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--genai", help="python of an environment with onnxruntime-genai's builder")
    parser.add_argument("--optimum", help="python of an environment with optimum-onnx")
    args = parser.parse_args()
    source = args.folder / "hf"
    if not source.is_dir():
        make(source)
    if args.genai:
        for precision in ("fp32", "int4"):
            target = args.folder / f"genai-{precision}"
            command = ["-m", "onnxruntime_genai.models.builder", "-i", source, "-o", target, "-p", precision]
            subprocess.run([args.genai, *command, "-e", "cpu", "-c", args.folder / "cache"], check=True)
    if args.optimum:
        command = ["-m", "optimum.commands.optimum_cli", "export", "onnx", "--model", source]
        task = ["--task", "text-generation-with-past", args.folder / "optimum-fp32"]
        subprocess.run([args.optimum, *command, *task], check=True)


if __name__ == "__main__":
    main()
