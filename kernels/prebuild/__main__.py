"""Compile the kernels into libraries that need no compiler where they run."""

import argparse
import sys
from pathlib import Path

from lite.kernels.prebuild import library
from lite.kernels.prebuild.targets import TARGETS, chosen


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lite.kernels.prebuild", description=__doc__)
    parser.add_argument(
        "--target",
        default="host",
        help=f"host (all of this machine's architecture), or of {','.join(TARGETS)}",
    )
    parser.add_argument("--output", type=Path, help="the folder for libraries and manifest.json")
    parser.add_argument("--compiler", help='of C, such as "gcc" or "python -m ziglang cc"')
    asked = parser.parse_args()
    if asked.output is None:
        parser.error("--output is needed")
    try:
        targets = chosen(asked.target)
    except ValueError as error:
        parser.error(str(error))
    try:
        manifest = library.build_all(targets, asked.output, asked.compiler)
    except library.BuildError as error:
        sys.exit(f"error: {error}")
    print(f"wrote {manifest}")


if __name__ == "__main__":
    main()
