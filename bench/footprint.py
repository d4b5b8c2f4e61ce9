"""What small and full installations take: `lite footprint` in fresh environments.

`python bench/footprint.py` builds the wheel of this checkout and that of the compiled kernels (or takes the
one that `--kernels` names), downloads what each environment needs, which is counted, installs it and measures
there. Packages come from pip's index. Times want a quiet machine; bytes do not care.

`--only edge` (and so on) measures some environments.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

from side_by_side import arguments, heading, machine, place, save

ROOT = Path(__file__).parents[1]
KERNELS = "tensordict-lite-kernels"
# What is asked for besides lite's own wheel: without dependencies a list that says all, or an extra.
SMALL = {
    "numpy only": ["numpy"],
    "edge": ["numpy", KERNELS],
    "edge with language models": ["numpy", KERNELS, "onnxruntime<1.29", "tokenizers", "jinja2", "markupsafe"],
}
EXTRAS = ("llm-cpu", "llm")
COLUMNS = [
    "installation",
    "download, MB",
    "installed, MB",
    "`import lite` over NumPy, ms",
    "then in memory, MB",
    "policy step, MB",
    "demo model, MB",
    "generating, at most MB",
    "kernels",
    "first `gae`, ms",
    "first `sample_tokens`, ms",
    "`lite demo`, s",
    "load",
]


def wheels(folder: Path, kernels: Path | None) -> tuple[Path, Path]:
    """The wheels of this checkout and of its kernels: of a copy, as one works only with the other."""
    source = folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(build, check=True)
    (own,) = folder.glob("tensordict_lite-*.whl")
    if kernels is None:
        build = [sys.executable, "-m", "lite.kernels.prebuild", "--wheel", str(folder)]
        subprocess.run(build, check=True, cwd=source, env={**os.environ, "PYTHONPATH": str(source)})
        (kernels,) = folder.glob("tensordict_lite_kernels-*.whl")
    return own, kernels.resolve()


def measure(name: str, own: Path, kernels: Path, repeat: int) -> dict[str, Any]:
    """An environment with one of the installations: bytes downloaded, and what `lite footprint` says."""
    if name in SMALL:
        wanted = ["--no-deps", str(own), *(str(kernels) if each == KERNELS else each for each in SMALL[name])]
    else:
        wanted = [f"{own}[{name}]"]
    with tempfile.TemporaryDirectory() as folder:
        downloads, home = Path(folder, "downloads"), Path(folder, "environment")
        venv.create(home, with_pip=True)
        python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
        pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "download", "-d", str(downloads), *wanted], check=True)
        sizes = {file.name: file.stat().st_size for file in sorted(downloads.iterdir())}
        subprocess.run([*pip, "install", "--no-deps", *map(str, downloads.iterdir())], check=True)
        ours = ("PYTHON", "NUMBA_", "LITE_", "ORT_")
        done = subprocess.run(
            [python, "-m", "lite", "footprint", "--json", "--repeat", str(repeat)],
            env={name: value for name, value in os.environ.items() if not name.startswith(ours)},
            cwd=folder,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return {"installation": name, "downloads": sizes, **json.loads(done.stdout)}


def row(facts: dict[str, Any]) -> str:
    """A line of the table."""
    installed = facts["installed"][facts["installation"]]
    memory, demo = facts["memory"], facts["demo"]
    used = facts["kernels"][facts["backend"]]
    cells = [
        facts["installation"],
        f"{sum(facts['downloads'].values()) / 1e6:.1f}",
        f"{sum(size or 0 for size in installed.values()) / 1e6:.1f}",
        f"{1e3 * facts['import']['lite over numpy']:.0f}",
        f"{memory['policy']['import lite'] / 1e6:.1f}",
        f"{memory['policy']['a policy step'] / 1e6:.1f}",
        *(
            ["", ""]
            if isinstance(memory["generation"], str)
            else [
                f"{memory['generation']['the demo model loaded'] / 1e6:.1f}",
                f"{memory['generation']['at most while generating'] / 1e6:.1f}",
            ]
        ),
        facts["backend"],
        *(f"{1e3 * used[kernel]['cold']:.3g}, {1e3 * used[kernel]['warm']:.3g}" for kernel in used),
        "" if isinstance(demo, str) else f"{demo['cold']:.2f}, {demo['warm']:.2f}",
        f"{facts['load']:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = arguments(__doc__, rounds=11, each="processes that a median is of")
    parser.add_argument("--only", action="append", choices=[*SMALL, *EXTRAS], help="this one, or these")
    parser.add_argument("--kernels", type=Path, help="wheel of compiled kernels, instead of building one")
    asked = parser.parse_args()
    about = machine()
    with tempfile.TemporaryDirectory() as folder:
        own, kernels = wheels(Path(folder), asked.kernels)
        rows = [measure(name, own, kernels, asked.rounds) for name in asked.only or [*SMALL, *EXTRAS]]
    lines = [
        *heading("Footprint", about),
        "Fresh environments. MB are 10^6 bytes; installed are also the files that Python compiles then.",
        "First calls: in the very first process, then the median of later ones. Memory is resident.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|" + "--:|" * (len(COLUMNS) - 1),
        *map(row, rows),
        "",
        "Installed, in MB:",
        "",
    ]
    for facts in rows:
        sizes = facts["installed"][facts["installation"]]
        said = ", ".join(f"{package} {(size or 0) / 1e6:.1f}" for package, size in sizes.items())
        lines.append(f"- {facts['installation']}: {said}")
    text = "\n".join(lines) + "\n"
    print(text)
    save(place(asked, part=bool(asked.only)), "footprint", text, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
