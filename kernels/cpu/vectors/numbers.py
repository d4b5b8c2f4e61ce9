"""Numbers and vectors of programs for LLVM, with the operators of Python, for formulas (see `formulas`)."""

from llvmlite import ir  # type: ignore[import-untyped]

BIT, BYTE, HALF, WORD, LONG = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
_CONTRACT = ("contract",)


def constant(kind: ir.Type, number: float) -> ir.Value:
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, number)] * kind.count)
    return ir.Constant(kind, number)


def intrinsic(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call one of LLVM's own functions, by the name it has for these types."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def type_name(kind: ir.Type) -> str:
    """As LLVM has it in names of functions."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{type_name(kind.element)}"
    return {ir.FloatType(): "f32", ir.DoubleType(): "f64"}.get(kind) or f"i{kind.width}"


class Number:
    """A number, or a vector of them, of the program being written; operators write instructions."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, o: "Operations", value: ir.Value) -> None:
        self.o, self.value = o, value

    def _both(self, other: "Number | float") -> tuple[ir.Value, ir.Value]:
        """This and `other` as values of one type."""
        x, kind = self.value, self.value.type
        if not isinstance(other, Number):
            return x, constant(kind, other)
        y = other.value
        if isinstance(y.type, ir.VectorType) and not isinstance(kind, ir.VectorType):
            return self.o.spread(x, y.type), y
        if isinstance(kind, ir.VectorType) and not isinstance(y.type, ir.VectorType):
            return x, self.o.spread(y, kind)
        return x, y

    def __add__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fadd(*self._both(other), flags=_CONTRACT))

    def __sub__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fsub(*self._both(other), flags=_CONTRACT))

    def __rsub__(self, other: "Number | float") -> "Number":
        x, y = self._both(other)
        return Number(self.o, self.o.builder.fsub(y, x, flags=_CONTRACT))

    def __mul__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fmul(*self._both(other), flags=_CONTRACT))

    def __rtruediv__(self, other: "Number | float") -> "Number":
        x, y = self._both(other)
        return Number(self.o, self.o.builder.fdiv(y, x))

    def __lt__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fcmp_ordered("<", *self._both(other)))

    def __gt__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fcmp_ordered(">", *self._both(other)))

    def __ge__(self, other: "Number | float") -> "Number":
        return Number(self.o, self.o.builder.fcmp_ordered(">=", *self._both(other)))

    def __eq__(self, other: "Number | float") -> "Number":  # type: ignore[override]
        return Number(self.o, self.o.builder.fcmp_ordered("==", *self._both(other)))

    def __ne__(self, other: "Number | float") -> "Number":  # type: ignore[override]
        return Number(self.o, self.o.builder.fcmp_unordered("!=", *self._both(other)))

    __radd__, __rmul__ = __add__, __mul__


class Operations:
    """The operations of formulas, as in `formulas.Arrays`, on vectors of the LLVM type `kind` or numbers."""

    def __init__(self, builder: ir.IRBuilder, kind: ir.Type) -> None:
        self.builder, self.kind = builder, kind
        self.element = kind.element if isinstance(kind, ir.VectorType) else kind
        self.itemsize = 4 if self.element == ir.FloatType() else 8

    def spread(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A vector with the same number throughout."""
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), value, WORD(0))
        return self.builder.shuffle_vector(
            first,
            ir.Constant(kind, ir.Undefined),
            ir.Constant(ir.VectorType(WORD, kind.count), [0] * kind.count),
        )

    def narrow(self, parameter: Number) -> Number:
        value = parameter.value
        return Number(self, value if self.itemsize == 8 else self.builder.fptrunc(value, self.element))

    def wide(self, number: Number) -> Number:
        value = number.value
        return Number(self, value if self.itemsize == 8 else self.builder.fpext(value, ir.DoubleType()))

    def where(self, condition: Number, x: Number | float, y: Number | float) -> Number:
        left, right = (
            constant(self.kind, part) if not isinstance(part, Number) else part.value for part in (x, y)
        )
        left, right = (
            self.spread(part, self.kind) if part.type != self.kind else part for part in (left, right)
        )
        return Number(self, self.builder.select(condition.value, left, right))

    def larger(self, x: Number, y: Number) -> Number:
        return self.where(x > y, x, y)

    def at_least(self, x: Number, least: Number | float) -> Number:
        return self.where(x < least, least, x)

    def fused(self, x: Number, y: Number | float, z: Number | float) -> Number:
        _, y = x._both(y)
        _, z = x._both(z)
        name = f"llvm.fmuladd.{type_name(self.kind)}"
        return Number(self, intrinsic(self.builder, name, self.kind, x.value, y, z))

    def power(self, rounded: Number) -> Number:
        integer = WORD if self.itemsize == 4 else LONG
        kind = ir.VectorType(integer, self.kind.count) if isinstance(self.kind, ir.VectorType) else integer
        bits = self.builder.bitcast(rounded.value, kind)
        bits = self.builder.shl(bits, constant(kind, 23 if self.itemsize == 4 else 52))
        return Number(self, self.builder.bitcast(bits, self.kind))
