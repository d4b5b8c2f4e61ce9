"""The `lite` command: argument parsing, and errors as one line instead of a traceback."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from lite.cli.options import add_options

_USER_ERRORS = (
    ArithmeticError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def build_parser() -> argparse.ArgumentParser:
    """The argument parser of every subcommand."""
    parser = argparse.ArgumentParser(
        prog="lite", description="TensorDict, RL kernels and ONNX language models without torch."
    )
    parser.add_argument("--traceback", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="prompts, samples, rewards and returns on the embedded model")
    demo.add_argument("--prompts", type=_positive, default=7, metavar="N", help="number of prompts (7)")
    demo.add_argument("--samples", type=_positive, default=4, metavar="N", help="samples per prompt (4)")
    demo.add_argument("--n-steps", type=_positive, default=32, metavar="N", help="steps of the return (32)")
    demo.add_argument("--gamma", type=float, default=0.99, help="discount per token (0.99)")
    demo.add_argument("--temperature", type=float, default=2.0, help="sampling temperature (2.0)")
    _add_model(demo, required=False)

    generate = commands.add_parser(
        "generate", help="continue prompts with an exported model, or chat with it"
    )
    generate.add_argument("prompt", nargs="*", help="prompts; '-' reads one from standard input")
    generate.add_argument(
        "--file",
        action="append",
        metavar="FILE",
        help="a prompt in each line, or JSON lines with 'prompt' or 'messages'; '-' is standard input",
    )
    generate.add_argument("--chat", action="store_true", help="hold a conversation on standard input")
    generate.add_argument("--system", help="system message put before the prompt")
    generate.add_argument("--raw", action="store_true", help="use the prompt as it is, without chat template")
    generate.add_argument("--samples", type=_positive, default=1, metavar="N", help="samples per prompt (1)")
    generate.add_argument(
        "--batch-size", type=_positive, default=8, metavar="N", help="responses at a time (8)"
    )
    generate.add_argument(
        "--assistant-model", metavar="DIR", help="a smaller model that guesses tokens ahead"
    )
    generate.add_argument(
        "--stream",
        action=argparse.BooleanOptionalAction,
        help="print text as it comes (for one response on a terminal)",
    )
    add_options(generate)
    _add_model(generate, required=True)
    _add_threads(generate)
    _add_ray(generate)

    score = commands.add_parser("score", help="log-prob of given responses")
    score.add_argument(
        "file", help="JSON lines with 'prompt' and 'response', or chat 'messages'; '-' is standard input"
    )
    score.add_argument("--raw", action="store_true", help="use prompts as they are, without chat template")
    score.add_argument("--output", metavar="FILE", help="append JSON lines here, skipping those done before")
    score.add_argument("--batch-size", type=_positive, default=8, metavar="N", help="rows per batch (8)")
    _add_model(score, required=True)
    _add_threads(score)
    _add_ray(score)

    mismatch = commands.add_parser("mismatch", help="how far log-probs of two sides are apart, and why")
    mismatch.add_argument(
        "a",
        metavar="A",
        help="the side that trains: directory of a model (or its .onnx file), or log-probs as JSON lines",
    )
    mismatch.add_argument(
        "b",
        metavar="B",
        help="the side that drew the tokens: a model, or JSON lines as vLLM, TRL, transformers write them",
    )
    mismatch.add_argument(
        "--data",
        metavar="FILE",
        help="responses to compare two models on: JSON lines with token ids, or as for score (B draws some)",
    )
    mismatch.add_argument("--raw", action="store_true", help="use prompts as they are, without chat template")
    mismatch.add_argument(
        "--samples", type=_positive, default=4, metavar="N", help="responses B draws per prompt (4)"
    )
    mismatch.add_argument(
        "--max-new-tokens", type=_positive, default=64, metavar="N", help="tokens of each (64)"
    )
    mismatch.add_argument(
        "--divergence",
        type=float,
        default=0.1,
        metavar="X",
        help="difference at which a response diverges (0.1)",
    )
    mismatch.add_argument(
        "--bos-token-id", type=_not_negative, metavar="ID", help="token that begins texts (A's)"
    )
    mismatch.add_argument("--html", metavar="FILE", help="write a page with charts, too")
    _add_graph(mismatch, of=" of A")
    _add_graph(mismatch, "-b", of=" of B")
    _add_run(mismatch)
    _add_threads(mismatch)

    info = commands.add_parser("info", help="what a model directory holds and how it will be run")
    _add_model(info, required=True)
    _add_threads(info)

    warmup = commands.add_parser("warmup", help="compile and cache all kernels")
    warmup.add_argument("--json", action="store_true", help="print JSON")

    footprint = commands.add_parser(
        "footprint", help="what this installation takes: disk, memory, imports, first calls"
    )
    footprint.add_argument(
        "--only",
        action="append",
        choices=["installed", "import", "memory", "kernels", "demo"],
        help="this part alone, or these",
    )
    footprint.add_argument(
        "--repeat", type=_positive, default=5, metavar="N", help="processes that a median is of (5)"
    )
    footprint.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_model(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--model",
        metavar="DIR",
        required=required,
        help="directory with the ONNX graph, tokenizer and configuration, or an .onnx file in one"
        + ("" if required else " (default: the embedded model)"),
    )
    _add_graph(parser)
    _add_run(parser)


def _add_graph(parser: argparse.ArgumentParser, end: str = "", of: str = "") -> None:
    parser.add_argument(
        f"--variant{end}",
        metavar="NAME",
        help=f"which of the graphs in the directory{of}: q4 is model_q4.onnx (the one in full precision)",
    )
    parser.add_argument(
        f"--adapter{end}", metavar="FILE", help=f"LoRA adapter to run the model{of} with (.onnx_adapter)"
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--seed", type=_not_negative, default=0, help="seed of the sampling (0)")
    parser.add_argument("--json", action="store_true", help="print JSON for machines")


def _add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads", type=_positive, metavar="N", help="threads inside an operator (the physical cores)"
    )


def _add_ray(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ray",
        nargs="?",
        const="",
        metavar="ADDRESS",
        help="spread the rows over a Ray cluster: that at ADDRESS ('auto', host:port), that of RAY_ADDRESS,"
        " or a new one on this machine; each of its actors has --threads processors (1)",
    )


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def _not_negative(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, got {value}")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run the `lite` command and return its exit status.

    Args:
        argv: arguments without the program name (those of the process if None).

    Returns:
        0 on success, 1 after an error that the user can act on (printed as one line on standard
        error), 2 for wrong arguments.
    """
    args = build_parser().parse_args(argv)
    with warnings.catch_warnings():  # restores what shows them
        warnings.showwarning = _warn
        return _run(args)


def _warn(message: Warning | str, *where: object, **options: object) -> None:
    """A warning as one line, without the place in the code that it came from."""
    print(f"lite: warning: {' '.join(str(message).split())}", file=sys.stderr)


def _run(args: argparse.Namespace) -> int:
    try:
        if args.command == "demo":
            from lite.cli.demo import run
        elif args.command == "generate":
            from lite.cli.generate import run
        elif args.command == "score":
            from lite.cli.score import run
        elif args.command == "mismatch":
            from lite.cli.mismatch import run
        elif args.command == "info":
            from lite.cli.info import run
        elif args.command == "footprint":
            from lite.cli.footprint import run
        else:
            from lite.cli.warmup import run
        status: int = run(args)
        return status
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away: nothing left to tell, and no second error on exit
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except _USER_ERRORS as error:
        if args.traceback:
            raise
        message = " ".join(str(error).split())
        print(f"lite {args.command}: {type(error).__name__}: {message}", file=sys.stderr)
        return 1
