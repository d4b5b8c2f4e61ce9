"""LLVM code of loops that apply formulas (see `formulas`) to the vectors of a row of logits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

from lite.kernels.cpu.vectors.numbers import (
    BYTE,
    HALF,
    LONG,
    WORD,
    Number,
    Operations,
    constant,
    intrinsic,
    type_name,
)

Formula = Callable[..., Any]

LINE = 64  # bytes of a line of memory
_TOGETHER = 4  # vectors in flight: a single one would wait for its own results
_AHEAD = 8192  # bytes: how far ahead of the loop memory is fetched


@dataclass(frozen=True)
class Registers:
    """The properties of the processor that loops use.

    Attributes:
        size: bytes of a vector. Where the processor's own are shorter, LLVM makes several of one.
        parts: whether an instruction reads or writes a part of a vector. Where none does, LLVM puts a branch
            around each number.
        past: whether an instruction writes past the caches.
        terms: how many numbers a lane adds up before its sum is set aside; None: all of a block.
    """

    size: int
    parts: bool
    past: bool
    terms: int | None


_X86 = Registers(size=LINE, parts=True, past=True, terms=None)
# Four vectors of x86 would take sixteen registers here, and sums and intermediate results another forty, of
# 32 in all. With a quarter of the lanes each sum has four times as many terms, which would lose a digit, so
# sums are set aside. The processor itself detects writes of whole lines, and does not read them first.
_ARM = Registers(size=16, parts=False, past=False, terms=32)


def registers_of(module: ir.Module) -> Registers:
    """The features of the processor that LLVM writes `module` for."""
    return _ARM if module.triple.startswith(("aarch64", "arm64")) else _X86


@dataclass(frozen=True)
class Part:
    """The beginning of a vector at the end of a row.

    Attributes:
        inside: which numbers belong to the row.
        places: index of each in memory; beyond the end that of the last one again.
    """

    inside: Any
    places: list[Any]


class Source:
    """Vectors of logits out of memory.

    Args:
        data: pointer to floats, or to the bits of 16-bit ones.
        keep: pointer to flags, None where nothing is masked.
        bfloat16: what the bits are.
    """

    def __init__(self, o: Operations, data: ir.Value, keep: ir.Value, bfloat16: bool) -> None:
        self.o, self.data, self.keep, self.bfloat16 = o, data, keep, bfloat16
        self.registers = registers_of(o.builder.module)
        self.narrow = data.type.pointee == HALF
        self.lanes = o.kind.count

    def fetch_ahead(self, start: ir.Value) -> None:
        """Prefetch the memory that the loop reads later; addresses beyond the end do no harm."""
        for data in (self.data, self.keep):
            if data is None:
                continue
            size = 1 if data.type.pointee == BYTE else 2 if self.narrow else self.o.itemsize
            size *= self.lanes * _TOGETHER
            for line in range(0, size, LINE):
                place = self.o.builder.bitcast(self.o.builder.gep(data, [start]), BYTE.as_pointer())
                _fetch(self.o.builder, self.o.builder.gep(place, [LONG(line + _AHEAD)]))

    def load(self, start: ir.Value, part: Part | None = None) -> Number:
        """The logits from `start` on; -inf where the mask is False and beyond the end of a part."""
        builder, kind = self.o.builder, self.o.kind
        x = _load(builder, self.data, start, ir.VectorType(self.data.type.pointee, self.lanes), part)
        if self.narrow:
            x = self._widened(x)
        live = part.inside if part else None
        if self.keep is not None:
            flags = ir.VectorType(BYTE, self.lanes)
            kept = _load(builder, self.keep, start, flags, part)
            kept = builder.icmp_unsigned("!=", kept, constant(flags, 0))
            live = kept if live is None else builder.and_(kept, live)
        if live is not None:
            x = builder.select(live, x, constant(kind, float("-inf")))
        return Number(self.o, x)

    def _widened(self, bits: ir.Value) -> ir.Value:
        """bfloat16: the upper half of a float32.

        float16: shift the fields into place; one product sets the exponent's bias right and normalises
        subnormals.
        """
        builder, kind = self.o.builder, self.o.kind
        words = ir.VectorType(WORD, self.lanes)
        bits = builder.zext(bits, words)
        if self.bfloat16:
            return builder.bitcast(builder.shl(bits, constant(words, 16)), kind)
        fields = builder.shl(builder.and_(bits, constant(words, 0x7FFF)), constant(words, 13))
        wide = builder.fmul(builder.bitcast(fields, kind), constant(kind, 2.0**112))
        beyond = builder.icmp_unsigned(">=", fields, constant(words, 0x0F800000))  # infinity, NaN
        special = builder.select(beyond, constant(words, 0x7F800000), constant(words, 0))
        sign = builder.shl(builder.and_(bits, constant(words, 0x8000)), constant(words, 16))
        return builder.bitcast(builder.or_(builder.or_(builder.bitcast(wide, words), special), sign), kind)


def _fetch(builder: ir.IRBuilder, place: ir.Value) -> None:
    intrinsic(builder, "llvm.prefetch.p0", ir.VoidType(), place, WORD(0), WORD(3), WORD(1))


def _load(
    builder: ir.IRBuilder, data: ir.Value, start: ir.Value, kind: ir.Type, part: Part | None
) -> ir.Value:
    align = _width(kind) // kind.count
    if part and not registers_of(builder.module).parts:
        value = ir.Constant(kind, ir.Undefined)
        for lane, index in enumerate(part.places):
            number = builder.load(builder.gep(data, [index]), align=align)
            value = builder.insert_element(value, number, WORD(lane))
        return value
    place = builder.bitcast(builder.gep(data, [start]), kind.as_pointer())
    if part is None:
        return builder.load(place, align=align)
    name = f"llvm.masked.load.{type_name(kind)}.p0"
    return intrinsic(builder, name, kind, place, WORD(align), part.inside, constant(kind, 0))


def _store(
    builder: ir.IRBuilder, value: ir.Value, data: ir.Value, start: ir.Value, part: Part | None, past: bool
) -> None:
    kind = value.type
    place = builder.bitcast(builder.gep(data, [start]), kind.as_pointer())
    align = _width(kind) // kind.count
    if part and not registers_of(builder.module).parts:
        # From the last to the first: what is beyond the end shares a place with the last one inside.
        for lane, index in reversed([*enumerate(part.places)]):
            number = builder.extract_element(value, WORD(lane))
            builder.store(number, builder.gep(data, [index]), align=align)
    elif part:
        name = f"llvm.masked.store.{type_name(kind)}.p0"
        intrinsic(builder, name, ir.VoidType(), value, place, WORD(align), part.inside)
    elif past:
        stored = builder.store(value, place, align=LINE)
        stored.set_metadata("nontemporal", builder.module.add_metadata([WORD(1)]))
    else:
        builder.store(value, place, align=align)


def _width(kind: ir.Type) -> int:
    """Bytes."""
    sizes = {ir.FloatType(): 4, ir.DoubleType(): 8, BYTE: 1, HALF: 2}
    return next(size for element, size in sizes.items() if element == kind.element) * int(kind.count)


def _variable(builder: ir.IRBuilder, kind: ir.Type) -> ir.Value:
    """Memory that LLVM turns into a register: it looks for it where the function begins."""
    with builder.goto_entry_block():
        return builder.alloca(kind)


@contextmanager
def _while(builder: ir.IRBuilder, condition: Callable[[], Any]) -> Iterator[None]:
    check, body, after = (builder.append_basic_block(name) for name in ("check", "body", "after"))
    builder.branch(check)
    builder.position_at_end(check)
    builder.cbranch(condition(), body, after)
    builder.position_at_end(body)
    yield
    builder.branch(check)
    builder.position_at_end(after)


Step = Callable[[list[Number], Any, "Part | None"], None]


class _Loop:
    """Over a row, by groups of vectors and then by single ones, the last of which may be cut."""

    def __init__(self, source: Source, size: ir.Value) -> None:
        self.source, self.size = source, size
        self.builder, self.lanes = source.o.builder, source.lanes
        self.place = _variable(self.builder, LONG)
        self.builder.store(LONG(0), self.place)

    def run(self, step: Step, set_aside: Callable[[], None] | None = None) -> None:
        """Call `step(vectors, start, None or the part of the vector that is meant)`.

        `set_aside` is called after as many steps as sums may have terms.
        """
        builder, terms = self.builder, self.source.registers.terms
        if set_aside and terms:
            with _while(builder, lambda: self._room(_TOGETHER, self.size)):
                end = builder.add(builder.load(self.place), LONG(self.lanes * _TOGETHER * terms))
                end = builder.select(builder.icmp_signed("<", end, self.size), end, self.size)
                self._whole(step, _TOGETHER, end)
                set_aside()
        else:
            self._whole(step, _TOGETHER, self.size)
        if not self.source.registers.parts:  # one that is cut costs twice as much
            self._whole(step, 1, self.size)
        with _while(builder, lambda: builder.icmp_signed("<", builder.load(self.place), self.size)):
            self.cut(step, self.size)

    def _room(self, vectors: int, end: ir.Value) -> ir.Value:
        """Whether there are so many up to `end`."""
        after = self.builder.add(self.builder.load(self.place), LONG(self.lanes * vectors))
        return self.builder.icmp_signed("<=", after, end)

    def _whole(self, step: Step, vectors: int, end: ir.Value) -> None:
        """So many vectors at a time, up to `end`."""
        builder = self.builder
        with _while(builder, lambda: self._room(vectors, end)):
            start = builder.load(self.place)
            if vectors > 1:
                self.source.fetch_ahead(start)
            starts = [builder.add(start, LONG(k * self.lanes)) for k in range(vectors)]
            step([self.source.load(s) for s in starts], start, None)
            builder.store(builder.add(start, LONG(self.lanes * vectors)), self.place)

    def cut(self, step: Step, end: ir.Value) -> None:
        """One vector, as far as `end`."""
        builder = self.builder
        start = builder.load(self.place)
        left = builder.sub(end, start)
        left = builder.select(builder.icmp_signed("<", left, LONG(self.lanes)), left, LONG(self.lanes))
        words = ir.VectorType(WORD, self.lanes)
        lanes = ir.Constant(words, [ir.Constant(WORD, lane) for lane in range(self.lanes)])
        limit = self.source.o.spread(builder.trunc(left, WORD), words)
        inside = builder.icmp_unsigned("<", lanes, limit)
        last = builder.sub(left, LONG(1))
        places = []
        for lane in range(0 if self.source.registers.parts else self.lanes):
            within = builder.icmp_signed("<", LONG(lane), left)
            places.append(builder.add(start, builder.select(within, LONG(lane), last)))
        part = Part(inside, places)
        step([self.source.load(start, part)], start, part)
        builder.store(builder.add(start, left), self.place)


def fold(
    source: Source, size: ir.Value, formula: Formula, parameters: list[Number], kinds: tuple[str, ...]
) -> ir.Value:
    """The results of one loop, as a structure."""
    o, builder = source.o, source.o.builder
    identity = {"sum": 0.0, "max": float("-inf")}
    *held, aside = [[_variable(builder, o.kind) for _ in kinds] for _ in range(_TOGETHER + 1)]
    for accumulators in (*held, aside):
        for kind, place in zip(kinds, accumulators, strict=True):
            builder.store(constant(o.kind, identity[kind]), place)

    def joined(kind: str, x: Number, y: Number) -> Number:
        return o.larger(x, y) if kind == "max" else x + y

    def step(vectors: list[Number], start: ir.Value, part: Part | None) -> None:
        for x, accumulators in zip(vectors, held, strict=False):
            for kind, place, more in zip(kinds, accumulators, formula(o, x, *parameters), strict=True):
                builder.store(joined(kind, more, Number(o, builder.load(place))).value, place)

    def all_of(k: int) -> Number:
        """Combine the accumulators of result k and the value that was set aside."""
        held_and_aside = [*held, aside] if source.registers.terms else held
        first, *others = (Number(o, builder.load(accumulators[k])) for accumulators in held_and_aside)
        for other in others:
            first = joined(kinds[k], other, first)
        return first

    def set_aside() -> None:
        for k, kind in enumerate(kinds):
            if kind == "sum":
                builder.store(all_of(k).value, aside[k])
                for accumulators in held:
                    builder.store(constant(o.kind, identity[kind]), accumulators[k])

    _Loop(source, size).run(step, set_aside if "sum" in kinds else None)
    found = []
    for k, kind in enumerate(kinds):
        value, count = all_of(k).value, source.lanes
        while count > 1:
            count //= 2
            low, high = (
                builder.shuffle_vector(value, value, ir.Constant(ir.VectorType(WORD, count), places))
                for places in ([*range(count)], [*range(count, 2 * count)])
            )
            part = Operations(builder, ir.VectorType(o.element, count))
            low, high = Number(part, low), Number(part, high)
            value = (part.larger(high, low) if kind == "max" else low + high).value
        number = Number(o, builder.extract_element(value, WORD(0)))
        found.append(o.wide(number).value if kind == "sum" else number.value)
    result = ir.Constant(ir.LiteralStructType([value.type for value in found]), ir.Undefined)
    for k, value in enumerate(found):
        result = builder.insert_value(result, value, k)
    return result


def write(
    source: Source, size: ir.Value, formula: Formula, parameters: list[Number], out: ir.Value, past: bool
) -> None:
    builder = source.o.builder

    def step(vectors: list[Number], start: ir.Value, part: Part | None) -> None:
        for k, x in enumerate([formula(source.o, x, *parameters) for x in vectors]):
            place = builder.add(start, LONG(k * source.lanes))
            _store(builder, x.value, out, place, part, past)

    loop = _Loop(source, size)
    if past:  # such writes are of whole lines
        address = builder.ptrtoint(out, LONG)
        before = builder.and_(builder.neg(address), LONG(LINE - 1))
        before = builder.udiv(before, LONG(source.o.itemsize))
        loop.cut(step, builder.select(builder.icmp_signed("<", before, size), before, size))
    loop.run(step)
    if past:
        builder.fence("seq_cst")  # other threads see them no later than what is written next
