"""The command to install missing packages, for errors: from a checkout.

`tensordict-lite` and `tensordict-lite-kernels` are on no index before a release. A command that asks an index
for them could install another project's packages under these names.
"""

PREBUILT = "`python -m lite.kernels.prebuild --wheel dist && pip install --no-deps dist/*.whl` in a checkout"


def install(extras: str) -> str:
    """The command that brings optional packages.

    Args:
        extras: names of `[project.optional-dependencies]`, with commas between them.

    Example:
        >>> install("llm,cuda")
        'pip install -e ".[llm,cuda]" in a checkout of lite'
    """
    return f'pip install -e ".[{extras}]" in a checkout of lite'
