"""TensorDicts for people: text, HTML, summary."""
