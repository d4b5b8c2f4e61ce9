"""How Sphinx builds the pages that `.ci/site` has written: the theme, and what Markdown means."""

import json
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry
from sphinx.environment import BuildEnvironment

project = "lite"
html_title = "lite"
copyright = ""
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
highlight_language = "text"
suppress_warnings: list[str] = []
nitpicky = True

myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline"]

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["rows.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "tango"
pygments_dark_style = "monokai"

SOUGHT = {
    "data/index": "gymnasium, gym, environment, vectorized environments, parallel environments",
    "data/agents": "multi-agent, multi agent, MARL, PettingZoo",
    "data/replay-buffers": "DataLoader, prioritized replay, dataset",
    "data/watching": "random seed, seed, reproducibility, logging, tensorboard, logging tensorboard, video",
    "kernels/cuda": "GPU, CUDA, GPU cuda",
    "models/getting-a-model": "export a model, Hugging Face, hub",
    "models/graphs": "quantization, quantized, quantization int4, int4, KV cache",
    "models/index": "chat template, tokenizer, LLM",
    "models/learning": "GRPO, DPO, SFT, RLHF, fine-tuning",
    "models/options": "temperature, top_p, sampling, beam search, structured output",
    "nn/adapters": "LoRA, PEFT",
    "nn/learning": "checkpoint, autograd, backward, gradient, learning rate schedule, vmap",
    "nn/onnx-files": "deploy, C++, to_onnx",
    "nn/steps-as-graphs": "jit, compile, torch.compile",
    "nn/torch-weights": "load_state_dict, convert torch weights, pretrained",
    "tensordicts/files": "save, load, memmap, safetensors, HDF5, parquet",
    "tensordicts/index": "slow, errors, environment variables, troubleshooting",
    "tensordicts/shared-files": "numpy, pandas, interoperability",
    "tensordicts/what-it-is": "batch size, batch_size, nested keys",
    "tensordicts/small-machine": "raspberry pi, edge, docker, offline installation",
    "index": "install, pip",
}
"""What a reader types who does not know the title of the page: the search shows that page first."""


def _add_sought(app: Sphinx, page: nodes.document) -> None:
    """Give a page its words of `SOUGHT`."""
    words = SOUGHT.get(app.env.docname, "")
    page.append(
        addnodes.index(entries=[("single", word, "", "main", None) for word in words.split(", ") if word])
    )


def _add_names(app: Sphinx, env: BuildEnvironment) -> None:
    """Have the search find public names, each in the row of its package's page (`rows.js`)."""
    assert SOUGHT.keys() <= env.found_docs, sorted(SOUGHT.keys() - env.found_docs)
    kinds = json.loads(Path(app.srcdir, "reference", "kinds.json").read_text(encoding="utf-8"))
    for name, kind in kinds.items():
        package, _, last = name.rpartition(".")
        found = ObjectEntry(f"reference/{package}", f"rows={last}", kind, aliased=False)
        env.domains.python_domain.objects[name] = found


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("doctree-read", _add_sought)
    app.connect("env-updated", _add_names)
