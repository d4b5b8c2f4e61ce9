import numpy as np

from lite import TensorDict
from lite.models import OnnxWrapper, embedded_model_path

questions = [
    "What is 17 + 25?",
    "Is 53 greater than 88?",
    "Sort in descending order: 70 95 12",
    "Say w o l f in reverse order.",
    "Who are you?",  # not among what it has learnt
]
model = OnnxWrapper(
    embedded_model_path(),
    input_mode="text",
    generate=True,
    runtime="numpy",  # a browser has no onnxruntime: NumPy runs the graph
    generate_kwargs={"max_new_tokens": 16, "do_sample": False},
)
prompts = [
    f"<|im_start|>user\n{q}<|im_end|>\n<|im_start|>assistant\n" for q in questions
]
out = model(TensorDict({"text": {"prompt": prompts}}, batch_size=[len(prompts)]))

for i, question in enumerate(questions):
    answer = out["text", "response"][i].removesuffix("<|im_end|>")
    log_probs = out["log_probs"].get("response", as_list=True)[i]
    print(f"{question}  {answer}  (each token at {np.exp(log_probs).round(2)})")
