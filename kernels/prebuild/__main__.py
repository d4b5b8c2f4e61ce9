"""Compile the kernels into libraries for machines that have no compiler."""

import argparse
import sys
import tempfile
from pathlib import Path

from lite.kernels.prebuild import library, wheel
from lite.kernels.prebuild.targets import TARGETS, chosen


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m lite.kernels.prebuild", description=__doc__)
    parser.add_argument(
        "--target",
        default="host",
        metavar="NAMES",
        help=f"with commas, of {', '.join(TARGETS)}; host, which is the default, means all of this machine's "
        "architecture",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="write libraries and manifest.json to this folder"
    )
    parser.add_argument(
        "--libraries",
        type=Path,
        metavar="DIR",
        help="with --wheel: take what --output wrote to this folder, instead of compiling",
    )
    parser.add_argument(
        "--wheel",
        nargs="?",
        type=Path,
        const=Path("dist"),
        metavar="DIR",
        help="write a wheel of them to this folder; it is dist if none is named",
    )
    parser.add_argument(
        "--into",
        type=Path,
        metavar="WHEEL",
        help="with --wheel: lite's own wheel (...-py3-none-any.whl); a copy of it with the libraries inside, "
        "which needs NumPy alone, is written instead of a wheel of their own",
    )
    parser.add_argument(
        "--compiler", metavar="COMMAND", help='of C, such as "gcc" or "python -m ziglang cc"; default: CC'
    )
    args = parser.parse_args(arguments)
    if args.output is None and args.wheel is None:
        parser.error("--output DIR or --wheel [DIR] is needed")
    if args.libraries is not None and (args.wheel is None or args.output is not None):
        parser.error("--libraries DIR goes with --wheel, and not with --output")
    if args.into is not None and (args.wheel is None or not args.into.is_file()):
        parser.error(f"--into WHEEL is a file, and goes with --wheel, got {args.into}")
    try:
        targets = chosen(args.target)
        if args.wheel is not None:
            wheel.tag(targets)
    except ValueError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.libraries or args.output or Path(scratch)
        try:
            if args.libraries is None:
                manifest = library.build_all(targets, folder, args.compiler, tell=_tell)
                if args.output is not None:
                    print(f"wrote {manifest}")
            if args.into is not None:
                print(f"wrote {wheel.insert(folder, targets, args.into, args.wheel)}")
            elif args.wheel is not None:
                print(f"wrote {wheel.pack(folder, targets, args.wheel)}")
        except (library.BuildError, OSError, ValueError) as error:
            sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
