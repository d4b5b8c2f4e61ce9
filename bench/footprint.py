"""What small and full installations take: `lite footprint` in fresh environments.

`python bench/footprint.py` builds the wheel of this checkout and that of the compiled kernels (or takes the
one that `--kernels` names), downloads what each environment needs, which is counted, installs it and measures
there. Packages come from pip's index. Times want a quiet machine; bytes do not care.

`--only edge` (and so on) measures some environments. `--sizes` counts the bytes of every extra that
pyproject.toml has, and measures nothing else: `install_sizes.md`. `--sizes small` counts the small
installation of README, as it is and with all that its packages require, for the Python that runs it. `--sizes
inside` counts the wheel of lite with kernels inside, which requires no Numba: alone, with an extra, as README
installs it, and without what pip compiles beforehand (Python then compiles what a program imports).
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from side_by_side import arguments, heading, machine, place, save, show

ROOT = Path(__file__).parents[1]
KERNELS = "tensordict-lite-kernels"
# What is asked for besides lite's own wheel: without dependencies a list that says all, or an extra.
SMALL = {
    "numpy only": ["numpy"],
    "edge": ["numpy", KERNELS],
    "edge with language models": ["numpy", KERNELS, "onnxruntime<1.29", "tokenizers", "jinja2", "markupsafe"],
}
EXTRAS = ("llm-cpu", "llm")
# The wheel with kernels inside: alone, with an extra, as README's small installation; with pip's option.
INSIDE = [
    f"inside{which}{option}" for which in ("", " llm-cpu", " small") for option in ("", " --no-compile")
]
# Bytes of each package of an environment, as its installer lists them.
COUNT = """
import json
from importlib import metadata
sizes = {}
for package in metadata.distributions():
    files = [file.locate() for file in package.files or []]
    sizes[package.metadata["Name"].lower()] = sum(file.stat().st_size for file in files if file.is_file())
print(json.dumps(sizes))
"""
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


def wheel(folder: Path) -> Path:
    """The wheel of this checkout, made of a copy in `folder`."""
    source = folder / "source"
    shutil.copytree(ROOT, source, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    subprocess.run(build, check=True)
    (own,) = folder.glob("tensordict_lite-*.whl")
    return own


def wheels(folder: Path, kernels: Path | None) -> tuple[Path, Path]:
    """The wheels of this checkout and of its kernels: of one copy, as one works only with the other."""
    own, source = wheel(folder), folder / "source"
    if kernels is None:
        build = [sys.executable, "-m", "lite.kernels.prebuild", "--wheel", str(folder)]
        subprocess.run(build, check=True, cwd=source, env={**os.environ, "PYTHONPATH": str(source)})
        (kernels,) = folder.glob("tensordict_lite_kernels-*.whl")
    return own, kernels.resolve()


def with_kernels(folder: Path, pure: Path, libraries: Path | None) -> Path:
    """The wheel with kernels inside, whose libraries are compiled unless a folder of them is given."""
    source = folder / "source"
    command = [sys.executable, "-m", "lite.kernels.prebuild", "--into", str(pure), "--wheel", str(folder)]
    if libraries is not None:
        listed = json.loads((libraries / "manifest.json").read_text(encoding="utf-8"))["libraries"]
        targets = ",".join(each["target"] for each in listed)
        command += ["--libraries", str(libraries.resolve()), "--target", targets]
    subprocess.run(command, check=True, cwd=source, env={**os.environ, "PYTHONPATH": str(source)})
    (made,) = folder.glob("tensordict_lite-*linux*.whl")
    return made


def installed(folder: str, wanted: Sequence[str], *options: str) -> tuple[str, dict[str, int]]:
    """Make an environment of what is wanted: its Python, and the bytes of each file that was downloaded.

    Options are those of `pip install`.
    """
    downloads, home = Path(folder, "downloads"), Path(folder, "environment")
    venv.create(home, with_pip=True)
    python = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "download", "-d", str(downloads), *wanted], check=True, env=as_if_alone())
    sizes = {file.name: file.stat().st_size for file in sorted(downloads.iterdir())}
    files = map(str, downloads.iterdir())
    subprocess.run([*pip, "install", "--no-deps", *options, *files], check=True, env=as_if_alone())
    return python, sizes


def measure(name: str, own: Path, kernels: Path, repeat: int) -> dict[str, Any]:
    """An environment with one of the installations: bytes downloaded, and what `lite footprint` says."""
    wanted = small(name, own, kernels) if name in SMALL else [f"{own}[{name}]"]
    with tempfile.TemporaryDirectory() as folder:
        python, sizes = installed(folder, wanted)
        told = printed(folder, [python, "-m", "lite", "footprint", "--json", "--repeat", str(repeat)])
    return {"installation": name, "downloads": sizes, **told}


def small(name: str, own: Path, kernels: Path) -> list[str]:
    """What pip is told to install."""
    return ["--no-deps", str(own), *(str(kernels) if each == KERNELS else each for each in SMALL[name])]


def as_if_alone() -> dict[str, str]:
    """The environment variables, without those that would show a fresh environment this checkout."""
    ours = ("PYTHON", "NUMBA_", "LITE_", "ORT_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def printed(folder: str, command: Sequence[str]) -> dict[str, Any]:
    """The JSON that a command prints."""
    done = subprocess.run(
        command, env=as_if_alone(), cwd=folder, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def count(extra: str, wanted: Sequence[str], *options: str) -> dict[str, Any]:
    """The bytes that one extra, or none, brings: of each download, and of each package as installed."""
    with tempfile.TemporaryDirectory() as folder:
        python, sizes = installed(folder, wanted, *options)
        packages = printed(folder, [python, "-c", COUNT])
    asked = {name.partition("-")[0].lower().replace("_", "-") for name in sizes}  # venv brings pip, too
    packages = {name: size for name, size in packages.items() if name.replace("_", "-") in asked}
    python = platform.python_version()
    return {"extra": extra, "python": python, "downloads": sizes, "installed": packages}


def count_inside(name: str, made: Path) -> dict[str, Any]:
    """The bytes of an installation of the wheel with kernels inside, and of the parts of that wheel."""
    _, *words = name.split()
    options = [word for word in words if word.startswith("--")]
    which = " ".join(word for word in words if word not in options)
    listed = [each for each in SMALL["edge with language models"] if each != KERNELS]
    (model,) = made.parent.glob("tensordict_lite_tiny_chat-*.whl")
    if which == "small":
        wanted = ["--no-deps", str(made), str(model), *listed]
    else:
        wanted = [f"{made}[{which}]", str(model)] if which else [str(made)]
    return {**count(name, wanted, *options), "inside": parts(made)}


def count_small(own: Path, kernels: Path) -> dict[str, Any]:
    """The bytes of the small installation, and the packages that theirs require besides."""
    name = "edge with language models"
    named = [each for each in SMALL[name] if each != KERNELS]
    found = count(f"small, Python {platform.python_version()}", small(name, own, kernels))
    whole = count("", named)["installed"]
    return found | {
        "required": {each: size for each, size in whole.items() if each not in found["installed"]}
    }


def page_of_sizes(counted: list[dict[str, Any]]) -> str:
    """The table of all extras, the first of which is none."""
    own = counted[0]["installed"]
    alone = sum(own.values())
    place = f"{platform.system()} {platform.machine()}, Python {counted[0]['python']}"
    lines = [
        "# What each extra takes",
        "",
        f"`python bench/footprint.py --sizes` on {place}, in fresh environments, with all that is",
        "required in turn. MB are 10^6 bytes; installed are also the files that Python compiles then.",
        "`more` is beside no extra.",
        "",
        "| extra | download, MB | installed, MB | more, MB | packages | largest of what it adds, MB |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for each in (each for each in counted if "required" not in each and "inside" not in each):
        packages = each["installed"]
        total = sum(packages.values())
        added = {name: size for name, size in packages.items() if not each["extra"] or name not in own}
        largest = sorted(added.items(), key=lambda item: -item[1])[:4]
        sizes = [sum(each["downloads"].values()), total, total - alone]
        cells = [each["extra"] or "(none)", *(f"{size / 1e6:.1f}" for size in sizes), str(len(packages))]
        cells.append(", ".join(f"{name} {size / 1e6:.1f}" for name, size in largest))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Small installations, as README has them, and with what their packages require besides:",
        "",
    ]
    for each in (each for each in counted if "required" in each):
        alone, more = (sum(each[key].values()) / 1e6 for key in ("installed", "required"))
        names = ", ".join(sorted(each["required"]))
        lines.append(f"- {each['extra']}: {alone:.1f} MB; {alone + more:.1f} MB with {names}")
        if each["compiling"] is not None:
            seconds, load = each["compiling"]
            lines.append(
                f"  - its kernels were compiled in {seconds / 60:.1f} minutes (load before {load:.1f})"
            )
    lines += [
        "",
        "The wheel with kernels inside (`lite.kernels.prebuild --into`), with all that is required. `small`:",
        "as README has it. `--no-compile`: pip compiles nothing, and Python what a program imports.",
        "",
    ]
    for each in (each for each in counted if "inside" in each):
        packages = sorted(each["installed"].items(), key=lambda item: -item[1])
        total = sum(each["installed"].values()) / 1e6
        largest = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in packages[:4])
        files = ", ".join(f"{name} {size / 1e6:.1f}" for name, size in each["inside"].items())
        lines.append(f"- {each['extra']}: {total:.1f} MB, of which {largest}; in lite: {files}")
    return "\n".join(lines) + "\n"


def parts(wheel: Path) -> dict[str, int]:
    """Bytes of the parts of a wheel with kernels inside, as they lie on disk before Python compiles them."""
    with zipfile.ZipFile(wheel) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    libraries = sorted(name for name in sizes if name.endswith(".so"))
    levels = ", ".join(Path(name).stem for name in libraries)
    kernels = sum(map(sizes.__getitem__, libraries))
    return {"Python": sum(sizes.values()) - kernels, f"kernels for {levels}": kernels}


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


def save_sizes(extras: Sequence[str], folder: Path, kernels: Path | None, libraries: Path | None) -> None:
    """Count what extras take; those that are not named keep what was counted before in this folder."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    every = ["", *project["optional-dependencies"]]
    file = folder / "install_sizes.json"
    before = json.loads(file.read_text(encoding="utf-8")) if extras and file.exists() else []
    counted = {e["extra"]: e for e in before if e["extra"] in every or {"required", "inside"} & {*e}}
    with tempfile.TemporaryDirectory() as built:
        load, start = os.getloadavg()[0], time.perf_counter()
        own, compiled = wheels(Path(built), kernels) if "small" in extras else (wheel(Path(built)), None)
        compiling = None if kernels else (time.perf_counter() - start, load)
        made = with_kernels(Path(built), own, libraries) if "inside" in extras else own
        wanted = [part for extra in extras or every for part in (INSIDE if extra == "inside" else [extra])]
        for extra in wanted:
            if extra == "small" and compiled is not None:
                found = {**count_small(own, compiled), "compiling": compiling}
            elif extra in INSIDE:
                found = count_inside(extra, made)
            else:
                found = count(extra, [f"{own}[{extra}]" if extra else str(own)])
            counted[found["extra"]] = found
            rows = sorted(counted.values(), key=lambda each: [*every, each["extra"]].index(each["extra"]))
            save(folder, "install_sizes", page_of_sizes(rows), rows)
    print(page_of_sizes(rows))


def main() -> None:
    parser = arguments(__doc__, rounds=11, each="processes that a median is of")
    parser.add_argument("--only", action="append", choices=[*SMALL, *EXTRAS], help="this one, or these")
    parser.add_argument("--sizes", nargs="*", metavar="EXTRA", help="count bytes, of all extras unless named")
    parser.add_argument("--kernels", type=Path, help="wheel of compiled kernels, instead of building one")
    parser.add_argument("--libraries", type=Path, help="for `inside`: a folder of compiled kernels")
    asked = parser.parse_args()
    if asked.sizes is not None:
        save_sizes(asked.sizes, place(asked), asked.kernels, asked.libraries)
        return
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
        "Installed:",
        "",
    ]
    for facts in rows:
        sizes = facts["installed"][facts["installation"]]
        said = ", ".join(f"{package} {(size or 0) / 1e6:.1f} MB" for package, size in sizes.items())
        lines.append(f"- {facts['installation']}: {said}")
    show(place(asked, part=bool(asked.only)), "footprint", lines, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
