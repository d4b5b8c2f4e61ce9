"""The commands: their arguments, the examples of their help, and checks that need no model."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from lite import __version__

T = TypeVar("T", int, float)

_STATUS = """exit status:
  0    done
  1    it failed, and a line on standard error says why (all of it with --debug)
  2    the command line is wrong
  130  interrupted with Ctrl-C
  141  whoever reads its output went away, as in `lite score FILE | head -1`
"""


@dataclass(frozen=True)
class Command:
    """A command of `lite`; the file of its name in this package has `run(args)`.

    Attributes:
        help: what it does, in a few words.
        arguments: adds its arguments to a parser.
        examples: command lines, each with a comment if it needs one.
        check: raises ArgumentError for arguments that contradict each other, before anything is loaded.
    """

    help: str
    arguments: Callable[[argparse.ArgumentParser], None]
    examples: Sequence[str]
    check: Callable[[argparse.Namespace], object] | None = None


class Parser(argparse.ArgumentParser):
    """A parser with errors of one line, whose arguments are added when they are first needed."""

    def __init__(
        self, *, fill: Callable[[argparse.ArgumentParser], None] | None = None, **options: Any
    ) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)
        self._fill = fill

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._filled()
        found, rest = super().parse_known_args(args, namespace)
        if rest:  # here, where the help is of the command
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def format_help(self) -> str:
        self._filled()
        return super().format_help()

    def _filled(self) -> None:
        fill, self._fill = self._fill, None
        if fill is not None:
            fill(self)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())} (see {self.prog} --help)\n")


def build_parser() -> argparse.ArgumentParser:
    """The argument parser of all commands."""
    parser = Parser(
        prog="lite",
        description="TensorDict, RL kernels and ONNX language models without torch.",
        epilog=_STATUS + "\n'lite COMMAND --help' has the arguments of a command, and examples.",
    )
    parser.add_argument("--version", action="version", version=f"lite {__version__}")
    _add_flag(parser, "--debug", "show the traceback of an error")
    _add_flag(parser, "--quiet", "say nothing on standard error but errors")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        commands.add_parser(
            name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            epilog="\n  ".join(["examples:", *command.examples]),
            fill=_filler(command),
        )
    return parser


def _filler(command: Command) -> Callable[[argparse.ArgumentParser], None]:
    def fill(parser: argparse.ArgumentParser) -> None:
        command.arguments(parser)
        # These may stand before or after the command; SUPPRESS keeps a value given before it.
        given: dict[str, Any] = {"action": "store_true", "default": argparse.SUPPRESS}
        parser.add_argument("--debug", help="show the traceback of an error", **given)
        parser.add_argument("--quiet", help="say nothing on standard error but errors", **given)

    return fill


def _demo(parser: argparse.ArgumentParser) -> None:
    _add_number(parser, "--prompts", _positive, 7, "number of prompts")
    _add_number(parser, "--samples", _positive, 4, "samples per prompt")
    _add_number(parser, "--n-steps", _positive, 32, "steps of the return")
    _add_number(parser, "--gamma", _share, 0.99, "discount per token")
    # The embedded model is so sure of its tokens that samples hardly differ below 1.5.
    _add_number(parser, "--temperature", _amount, 2.0, "sampling temperature")
    _add_text(parser, "--plot", "FILE", "write a page that draws rewards and returns along the tokens, too")
    _add_model(parser)


def _generate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="*", help="prompts; '-' reads one from standard input")
    lines = "a prompt in each line, or JSON lines with 'prompt' or 'messages'; '-' is standard input"
    _add_text(parser, "--file", "FILE", lines, action="append")
    _add_flag(parser, "--chat", "hold a conversation, as `lite chat`")
    _add_flag(parser, "--raw", "use the prompt as it is, without chat template")
    _add_number(parser, "--samples", _positive, 1, "samples per prompt")
    _add_number(parser, "--batch-size", _positive, 8, "responses at a time")
    _add_truncation(parser, "--max-new-tokens")
    appended = "append a JSON line for each response, with the columns of --file, skipping those done before"
    _add_text(parser, "--output", "FILE", appended)
    streamed = "print text as it comes (for one response on a terminal)"
    parser.add_argument("--stream", action=argparse.BooleanOptionalAction, help=streamed)
    _add_generation(parser)
    _add_ray(parser)


def _chat(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="*", help="what is said first")
    parser.set_defaults(chat=True, raw=False, file=None, samples=1, output=None, stream=None, ray=None)
    parser.set_defaults(truncate_prompt_tokens=None)
    _add_generation(parser)


def _add_generation(parser: argparse.ArgumentParser) -> None:
    from lite.cli.options import add_options

    _add_text(parser, "--system", "TEXT", _SYSTEM)
    _add_text(parser, "--assistant-model", "DIR", "a smaller model that guesses tokens ahead")
    add_options(parser)
    _add_model(parser)
    _add_threads(parser)


def _check_generate(args: argparse.Namespace) -> None:
    from lite.cli.options import check_options

    check_options(args)
    for flag in ("chat", "stream"):
        if args.output is not None and getattr(args, flag):
            raise argparse.ArgumentError(
                None, f"--output writes each response as JSON, and --{flag} prints it"
            )


def _score(parser: argparse.ArgumentParser) -> None:
    rows = (
        "JSON lines with 'prompt' and 'response', or chat 'messages', or a 'text', or what generate wrote "
        "with --output or --json; '-' is standard input"
    )
    parser.add_argument("file", help=rows)
    _add_flag(parser, "--raw", _RAW)
    _add_text(parser, "--output", "FILE", "append JSON lines here, skipping those done before")
    _add_text(parser, "--html", "FILE", "write a page that colours each token by its log-prob, too")
    _add_number(parser, "--batch-size", _positive, 8, "rows per batch")
    _add_truncation(parser, "the response")
    _add_number(parser, "--logprobs", _not_negative, 0, _MOST_PROBABLE)
    _add_model(parser)
    _add_threads(parser)
    _add_ray(parser)


def _check_score(args: argparse.Namespace) -> None:
    if args.html is not None and args.ray is not None:
        raise argparse.ArgumentError(
            None, "--html colours the tokens of what is scored here, and --ray scores elsewhere"
        )


def _mismatch(parser: argparse.ArgumentParser) -> None:
    trains = "the side that trains: directory of a model (or its .onnx file), or log-probs as JSON lines"
    drew = "the side that drew the tokens: a model, or JSON lines as vLLM, TRL, transformers write them"
    parser.add_argument("a", metavar="A", help=trains)
    parser.add_argument("b", metavar="B", help=drew)
    data = "responses to compare two models on, JSON lines with token ids or as for score, or prompts for B"
    _add_text(parser, "--data", "FILE", data)
    _add_flag(parser, "--raw", _RAW)
    _add_number(parser, "--samples", _positive, 4, "responses B draws per prompt")
    _add_number(parser, "--max-new-tokens", _positive, 64, "tokens of each")
    _add_number(parser, "--divergence", _amount, 0.1, "difference at which a response diverges")
    _add_text(parser, "--bos-token-id", "ID", "token that begins texts (A's)", type=_not_negative)
    _add_text(parser, "--html", "FILE", "write a page with charts, too")
    _add_graph(parser, of=" of A")
    _add_graph(parser, "-b", of=" of B")
    _add_run(parser)
    _add_threads(parser)


def _learn(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `lite learn`."""
    rows = (
        "JSON lines with 'prompt' or 'messages', and what the reward reads, such as 'answer'; for sft"
        " with 'response' (or 'completion'), a conversation as 'messages', or 'text'; for dpo with 'chosen'"
        " and 'rejected'"
    )
    parser.add_argument("file", help=rows)
    folder = "folder for what is learnt; the same command goes on behind the steps in it"
    _add_text(parser, "--output", "DIR", folder, required=True)
    method = (
        "from rewards of its own responses (grpo, default), from given responses (sft), or from which of two"
        " is preferred (dpo)"
    )
    parser.add_argument("--method", choices=["grpo", "sft", "dpo"], default="grpo", help=method)
    reward = (
        "exact (default), number or contains, which compare with 'answer'; or module:function of your"
        " own, called with the response and the row"
    )
    _add_text(parser, "--reward", "NAME", reward, default="exact")
    _add_text(parser, "--held-out", "FILE", "rows that show before and after what it learnt")
    _add_number(parser, "--evaluate-every", _not_negative, 0, "steps after which they show it, too")
    _add_number(parser, "--steps", _positive, 100, "steps of the optimiser, of all runs together")
    _add_number(parser, "--prompts", _positive, 8, "rows per step")
    _add_number(parser, "--samples", _positive, 8, "responses per prompt")
    _add_number(parser, "--max-new-tokens", _positive, 64, "tokens of each")
    _add_number(parser, "--temperature", _amount, 1.0, "sampling temperature")
    _add_number(parser, "--lr", _amount, 1e-4, "learning rate of AdamW")
    adapter = "begin with this LoRA adapter (.onnx_adapter, or a folder of PEFT): its rank and its layers"
    _add_text(parser, "--adapter", "PATH", adapter)
    _add_text(parser, "--rank", "N", "rank of the LoRA adapters that learn (8)", type=_positive)
    alpha = "what they compute is multiplied with alpha / rank (16.0, or that of PEFT's --adapter)"
    _add_text(parser, "--alpha", "X", alpha, type=_amount)
    layers = "layers that have adapters, such as q_proj or '*.mlp.*'; again for more (those of attention)"
    _add_text(parser, "--targets", "NAME", layers, action="append")
    _add_flag(parser, "--full", "all weights learn, instead of adapters")
    beta = "weight of staying near the model as it was before learning (0; of dpo 0.1)"
    _add_text(parser, "--kl", "X", beta, type=_amount, also="--beta")
    losses = "of grpo dapo (default), bnpo, grpo or dr_grpo; of dpo sigmoid (default), ipo, hinge or others"
    _add_text(parser, "--loss-type", "NAME", losses)
    _add_number(parser, "--clip", _share, 0.2, "how far a ratio of probabilities counts", also="--epsilon")
    _add_text(parser, "--clip-high", "X", "the same upwards (--clip)", type=_amount, also="--epsilon-high")
    steps = "steps of the optimiser on the same responses"
    _add_number(parser, "--iterations", _positive, 1, steps, also="--num-iterations")
    scale = "what advantages are divided by: deviation of the group (default), of the batch, or none"
    parser.add_argument("--scale-rewards", choices=["group", "batch", "none"], default="group", help=scale)
    _add_flag(parser, "--mask-truncated-completions", "responses that --max-new-tokens cuts off do not count")
    _add_number(parser, "--label-smoothing", _rate, 0.0, "of dpo: how often a preference is wrong")
    only = "of sft: the response alone learns, or the prompt, too (the response; of conversations all)"
    parser.add_argument("--completion-only-loss", action=argparse.BooleanOptionalAction, help=only)
    _add_flag(parser, "--assistant-only-loss", "of sft: of conversations what assistants say learns")
    _add_number(parser, "--batch-size", _positive, 16, "responses that a gradient is computed of at a time")
    parts = "compute the model in N parts again in the backward pass: less memory, more time (not at all)"
    _add_text(parser, "--checkpoint", "N", parts, type=_positive)
    _add_number(parser, "--seed", _not_negative, 0, "seed of the order of rows and of the sampling")
    _add_text(parser, "--system", "TEXT", _SYSTEM)
    _add_flag(parser, "--raw", _RAW)
    parser.add_argument("--html", "--plot", metavar="FILE", help="write a page with the curves, too")
    _add_flag(parser, "--json", "print a JSON line for each step")
    _add_text(
        parser,
        "--model",
        "DIR",
        "directory with the ONNX graph, tokenizer and configuration (the embedded model)",
    )
    _add_text(parser, "--variant", "NAME", "which of the graphs in the directory: q4 is model_q4.onnx")
    parser.set_defaults(device="cpu")
    _add_threads(parser)


def _check_learn(args: argparse.Namespace) -> None:
    """Check the arguments of `lite learn` against each other, and set defaults that depend on others."""
    from lite.cli.learning.losses import LOSS_TYPES
    from lite.cli.learning.rewards import check_reward

    check_reward(args.reward)
    names = LOSS_TYPES[args.method]
    if args.loss_type is not None and args.loss_type not in names:
        expected = f"one of {', '.join(names)}" if names else "left out"
        raise argparse.ArgumentError(
            None, f"--loss-type of {args.method} must be {expected}, got {args.loss_type!r}"
        )
    if names:
        args.loss_type = args.loss_type or names[0]
    if args.kl is None:
        args.kl = 0.1 if args.method == "dpo" else 0.0
    if args.method == "dpo" and not args.kl:
        raise argparse.ArgumentError(None, "--beta of dpo must be above 0")
    if args.adapter is None and args.rank is None:
        args.rank = 8
    if args.alpha is None and (args.adapter is None or args.adapter.endswith(".onnx_adapter")):
        args.alpha = 16.0
    if args.full and args.adapter is not None:
        raise argparse.ArgumentError(None, "--full and --adapter: all weights learn, or an adapter goes on")
    if args.method == "grpo" and args.samples < 2:
        raise argparse.ArgumentError(None, "--samples must be at least 2: responses are compared with others")
    if args.method == "grpo" and not args.temperature:
        raise argparse.ArgumentError(None, "--temperature must be above 0: equal responses teach nothing")


def _info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", metavar="PATH", help="any file or folder that lite writes or reads"
    )
    _add_model(parser)
    _add_threads(parser)


def _check_info(args: argparse.Namespace) -> None:
    if args.path is not None and args.model is not None:
        raise argparse.ArgumentError(None, "PATH and --model: give one of them")


def _doctor(parser: argparse.ArgumentParser) -> None:
    _add_flag(parser, "--json", "print JSON")


def _bench(parser: argparse.ArgumentParser) -> None:
    groups = "of tensordicts, files, modules, gradients, returns, logits, replay and generation (all)"
    parser.add_argument("name", nargs="*", help=groups)
    _add_flag(parser, "--peers", "time the libraries beside it, as far as they are installed")
    _add_number(parser, "--rounds", _positive, 15, "runs of each")
    _add_text(parser, "--plot", "DIR", "write bench.html, with a chart, to this folder, too")
    _add_flag(parser, "--json", "print JSON for machines")


def _warmup(parser: argparse.ArgumentParser) -> None:
    _add_flag(parser, "--json", "print JSON")
    _add_text(parser, "--output", "DIR", "fill this folder, for NUMBA_CACHE_DIR on other machines, too")


def _footprint(parser: argparse.ArgumentParser) -> None:
    parts = ["installed", "import", "memory", "kernels", "demo"]
    parser.add_argument("--only", action="append", choices=parts, help="this part alone, or these")
    _add_number(parser, "--repeat", _positive, 5, "processes that a median is of")
    _add_flag(parser, "--json", "print JSON")


# -- arguments of several commands --------------------------------------------------------------------------


_MOST_PROBABLE = "tell the N most probable tokens in the place of each, with their log-probs"
_RAW = "use prompts as they are, without chat template"
_SYSTEM = "system message put before the prompt"


def _add_model(parser: argparse.ArgumentParser) -> None:
    folder = (
        "directory with the ONNX graph, tokenizer and configuration, or an .onnx file in one"
        " (the embedded model)"
    )
    _add_text(parser, "--model", "DIR", folder)
    _add_graph(parser)
    _add_run(parser)


def _add_graph(parser: argparse.ArgumentParser, end: str = "", of: str = "") -> None:
    graph = f"which of the graphs in the directory{of}: q4 is model_q4.onnx (the one in full precision)"
    adapter = f"LoRA adapter to run the model{of} with: .onnx_adapter, or a folder of `lite learn` or PEFT"
    _add_text(parser, f"--variant{end}", "NAME", graph)
    _add_text(parser, f"--adapter{end}", "PATH", adapter)


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda or cuda:N")
    _add_number(parser, "--seed", _not_negative, 0, "seed of the sampling")
    _add_flag(parser, "--json", "print JSON for machines")


def _add_truncation(parser: argparse.ArgumentParser, beside: str) -> None:
    told = f"use the last N tokens of a prompt at most; -1: those that the context takes beside {beside}"
    _add_text(parser, "--truncate-prompt-tokens", "N", told, type=_kept)


def _add_threads(parser: argparse.ArgumentParser) -> None:
    _add_text(parser, "--threads", "N", "threads inside an operator (the physical cores)", type=_positive)


def _add_ray(parser: argparse.ArgumentParser) -> None:
    cluster = (
        "spread the rows over a Ray cluster: that at ADDRESS ('auto', host:port), that of RAY_ADDRESS,"
        " or a new one on this machine; each of its actors has --threads processors (1)"
    )
    _add_text(parser, "--ray", "ADDRESS", cluster, nargs="?", const="")


def _add_flag(parser: argparse.ArgumentParser, flag: str, text: str) -> None:
    parser.add_argument(flag, action="store_true", help=text)


def _add_text(
    parser: argparse.ArgumentParser, flag: str, metavar: str, text: str, *, also: str = "", **options: Any
) -> None:
    parser.add_argument(flag, *filter(None, [also]), metavar=metavar, help=text, **options)


def _add_number(
    parser: argparse.ArgumentParser, flag: str, kind: Callable[[str], float], default: float, text: str,
    also: str = "",
) -> None:  # fmt: skip
    metavar = "N" if isinstance(default, int) else "X"
    _add_text(parser, flag, metavar, f"{text} ({default})", also=also, type=kind, default=default)


def _number(kind: type[T], expected: str, fits: Callable[[T], bool]) -> Callable[[str], T]:
    """A type of arguments: numbers that fit."""

    def parse(text: str) -> T:
        value = kind(text)
        if not fits(value):
            raise argparse.ArgumentTypeError(f"must be {expected}, got {text}")
        return value

    parse.__name__ = "int" if kind is int else "number"  # argparse names it in errors
    return parse


_positive = _number(int, "at least 1", lambda value: value >= 1)
_kept = _number(int, "-1 or at least 1", lambda value: value == -1 or value >= 1)
_not_negative = _number(int, "at least 0", lambda value: value >= 0)
_amount = _number(float, "at least 0 and finite", lambda value: 0 <= value < math.inf)
_rate = _number(float, "from 0 to below 1", lambda value: 0 <= value < 1)
_share = _number(float, "above 0 and at most 1", lambda value: 0 < value <= 1)

COMMANDS = {
    "demo": Command(
        "prompts, samples, rewards and returns on the embedded model",
        _demo,
        (
            "lite demo",
            "lite demo --plot demo.html            # draws rewards and returns, too",
            "lite demo --prompts 2 --samples 8 --temperature 1.5 --seed 3 --json",
        ),
    ),
    "generate": Command(
        "continue prompts with an exported model",
        _generate,
        (
            'lite generate "What is 12 + 30?"      # on the embedded model',
            'lite generate --model DIR "Once upon a time" --raw --top-p 0.9',
            "lite generate --model DIR --file prompts.jsonl --samples 4 --output out.jsonl",
            """lite generate --model DIR "Is it raining?" --grammar '{"regex": "yes|no"}'""",
        ),
        _check_generate,
    ),
    "chat": Command(
        "chat with an exported model",
        _chat,
        (
            "lite chat                      # with the embedded model; Ctrl-D ends it",
            'lite chat --model DIR --system "Be brief." --temperature 0.7',
            "lite chat --model DIR --json < lines.txt  # a row for each response",
        ),
        _check_generate,
    ),
    "score": Command(
        "log-prob of given responses",
        _score,
        (
            "lite score rows.jsonl                 # on the embedded model",
            "lite score --model DIR out.jsonl      # what generate --output wrote",
            "lite score --model DIR rows.jsonl --output out.jsonl  # again: it goes on",
            "lite score --model DIR rows.jsonl --html page.html",
            "lite score --model DIR - --json < rows.jsonl",
        ),
        _check_score,
    ),
    "learn": Command(
        "teach a model by rewards, by given responses, or by preferences",
        _learn,
        (
            "lite learn prompts.jsonl --output learnt  # the embedded model",
            "lite learn prompts.jsonl --output learnt  # again: it goes on",
            "lite learn prompts.jsonl --model DIR --reward mine:score --output learnt",
            "lite learn chats.jsonl --model DIR --method sft --output learnt",
            "lite learn pairs.jsonl --model DIR --method dpo --beta 0.1 --output learnt",
            "lite learn more.jsonl --model DIR --adapter learnt --output further",
        ),
        _check_learn,
    ),
    "mismatch": Command(
        "how far log-probs of two sides are apart, and why",
        _mismatch,
        (
            "lite mismatch DIR rollouts.jsonl          # a model, and what a tool wrote",
            "lite mismatch DIR DIR --variant-b q4      # two graphs of one directory",
            "lite mismatch trainer.jsonl rollouts.jsonl --html page.html",
        ),
    ),
    "info": Command(
        "what a file or folder holds, what opens it, and how a model will be run",
        _info,
        (
            "lite info                             # of the embedded model",
            "lite info --model DIR --variant q4",
            "lite info rollouts.tdz                # or a folder, policy.onnx, scored.jsonl",
            "lite info PATH --json",
        ),
        _check_info,
    ),
    "doctor": Command(
        "what is installed, what runs here, what to install for more",
        _doctor,
        ("lite doctor", "lite doctor --json"),
    ),
    "bench": Command(
        "how fast lite is on this machine, alone or beside other libraries",
        _bench,
        (
            "lite bench                            # a minute or two",
            "lite bench tensordicts returns --peers",
            "lite bench --peers --json --plot .",
        ),
    ),
    "warmup": Command(
        "compile and cache all kernels", _warmup, ("lite warmup", "lite warmup --output kernels_cache")
    ),
    "footprint": Command(
        "what this installation takes: disk, memory, imports, first calls",
        _footprint,
        ("lite footprint", "lite footprint --only memory --json"),
    ),
}
