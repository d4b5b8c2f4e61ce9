"""All kernels for one target as an object file: `python -m lite.kernels.prebuild.kernel_object TARGET FILE`.

Runs in its own process, because Numba reads its target from the environment once. The object holds the same
optimised LLVM code that Numba would run. To each signature it adds a function that takes the arguments as an
array of slots, and to all of them the tables that `entries.c` reads. For another architecture or system Numba
is made to believe that it runs there.
"""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm  # type: ignore[import-untyped]

from lite.kernels.prebuild.signatures import SIGNATURES, Part, kernel_of, numba_types, parsed
from lite.kernels.prebuild.targets import TARGETS, Target

_BYTES = {"?": 1, "f": 4, "d": 8, "i": 4, "q": 8, "Q": 8, "H": 2, "B": 1}

# Numba's reference counts, of arrays that own nothing here.
_NO_OWNERS = """
define void @NRT_MemInfo_call_dtor(ptr %owner) { ret void }
"""
_TYPES = """
%signature = type { ptr, i64, ptr, i64 }
%entry = type { ptr, i64 }
%method = type { ptr, ptr, i32, ptr }
declare ptr @lite_call(ptr, ptr, ptr, i64)
"""
_FASTCALL = 0x80  # METH_FASTCALL: arguments come as an array and its length


def _codes(parts: tuple[Part, ...]) -> Iterator[int]:
    """As `entries.c` writes them."""
    for part in parts:
        yield ord(part.letter) + 256 * (part.axes if part.inside is None else len(part.inside))
        yield from _codes(part.inside or ())


class _Thunk:
    """The program that takes the arguments of a kernel from a row of slots, and calls it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arguments: list[tuple[str, str]] = []
        self._slot = self._count = 0

    def _new(self, instruction: str) -> str:
        name = f"%v{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    def _take(self) -> str:
        at = self._new(f"getelementptr i64, ptr %slots, i64 {self._slot}")
        self._slot += 1
        return self._new(f"load i64, ptr {at}")

    def add(self, parts: tuple[Part, ...]) -> None:
        """Arguments as Numba passes them: an array is its owner twice, counts, memory, shape and strides."""
        for part in parts:
            if part.inside is not None:
                self.add(part.inside)
            elif part.axes:
                memory = self._new(f"inttoptr i64 {self._take()} to ptr")
                count = self._take()
                self.arguments += [("ptr", "null"), ("ptr", "null"), ("i64", count)]
                self.arguments += [("i64", str(_BYTES[part.letter])), ("ptr", memory)]
                self.arguments += [("i64", self._take()) for _ in range(2 * part.axes)]
            else:
                slot = self._take()
                if part.letter == "-":
                    self.arguments.append(("ptr", "null"))
                elif part.letter == "q":
                    self.arguments.append(("i64", slot))
                elif part.letter == "d":
                    self.arguments.append(("double", self._new(f"bitcast i64 {slot} to double")))
                elif part.letter == "f":
                    bits = self._new(f"trunc i64 {slot} to i32")
                    self.arguments.append(("float", self._new(f"bitcast i32 {bits} to float")))
                else:  # of the letters of single numbers ? is left
                    self.arguments.append(("i8", self._new(f"trunc i64 {slot} to i8")))

    def text(self, name: str, kernel: str) -> str:
        given = ", ".join(
            f"{kind} {value}" for kind, value in [("ptr", "%slots"), ("ptr", "%failure"), *self.arguments]
        )
        return "\n".join(
            (
                f"define internal i32 @{name}(ptr %slots) {{",
                "  %failure = alloca ptr",
                *self.lines,
                f'  %status = call i32 @"{kernel}"({given})',
                "  ret i32 %status",
                "}",
            )
        )


def _compiled(kernel: Any, parts: tuple[Part, ...]) -> Any:
    """The LLVM code that Numba generates for a kernel, before machine code."""
    from numba.core import caching
    from numba.core.compiler_lock import global_compiler_lock

    compiler = kernel._compiler
    kernel._cache = caching.NullCache()
    compiler.targetoptions["no_cpython_wrapper"] = True
    customize = type(compiler)._customize_flags

    def program_only(flags: Any) -> Any:
        flags = customize(compiler, flags)
        flags.no_compile = True
        return flags

    compiler._customize_flags = program_only
    with global_compiler_lock:
        result = compiler._compile_core(numba_types(parts), None)
        result.library._ensure_finalized()
    return result


def _internalize(module: Any, *shown: str) -> None:
    """Export no function but `shown`: signatures share names of functions."""
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and value.name not in shown:
            value.linkage = "internal"


def _table(name: str, kind: str, values: list[str]) -> str:
    return (
        f"@{name} = internal constant [{len(values)} x {kind}] [{', '.join(f'{kind} {v}' for v in values)}]"
    )


def _string(name: str, text: str) -> str:
    return f'@{name} = internal constant [{len(text) + 1} x i8] c"{text}\\00"'


def program(digest: str, names: list[str], tell: Callable[[str], None] = lambda name: None) -> Any:
    """LLVM's program of these kernels, for what Numba compiles for, with what entries.c calls them by.

    `tell` is called with the name of each, before it is compiled.
    """
    from numba.core import types

    whole: Any = None
    text, methods = [_TYPES], []
    for e, name in enumerate(names):
        kernel = kernel_of(name)
        tell(name)
        rows = []
        for s, signature in enumerate(SIGNATURES[name]):
            parts = parsed(signature)
            result = _compiled(kernel, parts)
            gives = result.signature.return_type
            if gives not in (types.int64, types.none):
                raise TypeError(f"{name} must return an integer or nothing, got {gives}")
            linked = result.library._final_module.clone()
            found = linked.get_function(result.fndesc.llvm_func_name)
            thunk = _Thunk()
            thunk.add(parts)
            expected = ["ptr", "ptr", *(kind for kind, _ in thunk.arguments)]
            if (passed := [str(argument.type) for argument in found.arguments]) != expected:
                raise TypeError(f"{name} {signature} is passed as {passed}, expected {expected}")
            found.name = inside = f"kernel_{e}_{s}"
            _internalize(linked, inside)
            if whole is None:
                whole = linked
            else:
                whole.link_in(linked)
            codes = list(map(str, _codes(parts)))
            kinds = ", ".join(expected)
            text += [
                _table(f"codes_{e}_{s}", "i32", codes),
                f"declare i32 @{inside}({kinds})",
                thunk.text(f"call_{e}_{s}", inside),
            ]
            number = int(gives == types.int64)
            rows.append(f"{{ ptr @codes_{e}_{s}, i64 {len(codes)}, ptr @call_{e}_{s}, i64 {number} }}")
        text += [
            _string(f"name_{e}", name),
            _table(f"signatures_{e}", "%signature", rows),
            f"@entry_{e} = internal constant %entry {{ ptr @signatures_{e}, i64 {len(rows)} }}",
            f"define internal ptr @python_{e}(ptr %self, ptr %arguments, i64 %count) {{",
            f"  %found = tail call ptr @lite_call(ptr @entry_{e}, ptr %self, ptr %arguments, i64 %count)",
            "  ret ptr %found",
            "}",
        ]
        methods.append(f"{{ ptr @name_{e}, ptr @python_{e}, i32 {_FASTCALL}, ptr null }}")
    exported = "dllexport" if "windows" in whole.triple else ""
    text += [
        _table("lite_methods", "%method", methods).replace("internal", exported),
        f"@lite_count = {exported} constant i64 {len(methods)}",
        _string("lite_digest", digest).replace("internal", exported),
    ]
    for extra in (_NO_OWNERS, "\n".join(text)):
        module = llvm.parse_assembly(f'target triple = "{whole.triple}"\n{extra}')
        module.data_layout = whole.data_layout
        whole.link_in(module)
    shown = ("lite_methods", "lite_count", "lite_digest")
    _internalize(whole, *shown)
    whole.verify()
    return whole


def _emit(whole: Any, target: Target) -> bytes:
    machine = llvm.Target.from_triple(whole.triple).create_target_machine(
        cpu=target.processor, features=target.features, opt=3, reloc="pic", codemodel="default"
    )
    builder = llvm.create_pass_builder(machine, llvm.PipelineTuningOptions(speed_level=0))
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_merge_functions_pass()
    passes.run(whole, builder)
    return bytes(machine.emit_object(whole))


_stand_ins: list[Any] = []


def _stand_in(*of_kernel: Any) -> Any:
    """A compiled function, and each time another one, which is never called."""
    _stand_ins.append([].append)
    return _stand_ins[-1]


def _pretend(target: Target) -> None:
    """Make Numba believe that it runs on another machine: what it compiles is never called here."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.cpu import CPUContext

    from lite.kernels.backends.cache import KernelCache

    triple = target.triple
    # These link code with this process, and other systems have other formats. Numba knows a kernel that
    # another one calls by its compiled function: each needs one of its own.
    KernelCache.enable = KernelCache.disable
    JITCodeLibrary._finalize_specific = lambda library: None  # type: ignore[method-assign]
    CPUContext.get_executable = _stand_in  # type: ignore[method-assign]
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.get_process_triple = llvm.get_default_triple = lambda: triple
    llvm.Target.from_default_triple = classmethod(lambda kind: kind.from_triple(triple))


def main(name: str, file: str, *names: str) -> None:
    target = TARGETS[name]
    if any(os.environ.get(key) != value for key, value in target.environment.items()):
        raise SystemExit(f"Numba is not set up to compile for {name}: {target.environment}")
    if not target.native:
        _pretend(target)
    from lite.kernels.backends import sources

    whole = program(sources.digest(), list(names or SIGNATURES), functools.partial(print, flush=True))
    Path(file).write_bytes(_emit(whole, target))


if __name__ == "__main__":
    main(*sys.argv[1:])
