"""LLVM emission of scalar operations on compute-type values, for GPU and CPU alike.

Values are as in `numjit.codegen.storage`: ``i1`` for bool, ``iN``, ``float`` or ``double``, and a Python
pair ``(re, im)`` for complex. Math functions are calls of libdevice (GPU) or of the C library (CPU), in
the precision of the value. NVVM refuses ``fneg`` and some of LLVM's intrinsics, hence the detours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from numjit import dtypes
from numjit.codegen.integers import negated, wrapping
from numjit.codegen.machine import HOST, Machine
from numjit.codegen.storage import convert, value_type
from numjit.dtypes import DType

__all__ = ["Emitter"]

I1 = ir.IntType(1)
#: Where the C library calls a function by another name than Python's ``math``.
_LIBRARY_NAMES = {"gamma": "tgamma", "round": "rint"}
#: Math that LLVM knows on the host: it folds, vectorises or selects instructions for these.
_HOST_INTRINSICS = frozenset(
    ("ceil", "copysign", "cos", "exp", "exp2", "fabs", "floor", "fma", "log", "log10", "log2", "pow", "rint",
     "sin", "sqrt", "trunc")
)  # fmt: skip


class Emitter:
    """Emits operations at the end of a builder's block.

    Parameters
    ----------
    context
        Numba's target context.
    builder
        llvmlite's IR builder.
    machine
        The target.
    """

    def __init__(self, context: Any, builder: Any, machine: Machine) -> None:
        self.context = context
        self.builder = builder
        self.machine = machine

    # ------------------------------------------------------------------------------ values

    def constant(self, dtype: DType, value: float) -> Any:
        """Return a constant of a real compute dtype, or a complex one with imaginary part 0."""
        if dtype.is_complex:
            return self.constant(dtype.real, value), self.constant(dtype.real, 0.0)
        return value_type(dtype)(float(value) if dtype.is_floating else int(value))

    def convert(self, value: Any, src: DType, dst: DType) -> Any:
        """Convert between dtypes as torch's ``.to`` does, without rounding to 16- or 8-bit floats."""
        return convert(self.builder, HOST, value, src.compute, dst.compute, rounded=False)

    def unpack(self, dtype: DType, value: Any) -> Any:
        """Return a value in numjit's form from Numba's (a structure for complex)."""
        if not dtype.is_complex:
            return value
        return self.builder.extract_value(value, 0), self.builder.extract_value(value, 1)

    def pack(self, dtype: DType, value: Any) -> Any:
        """Return a value in Numba's form from numjit's."""
        if not dtype.is_complex:
            return value
        part = value_type(dtype)
        packed = ir.Constant(ir.LiteralStructType([part, part]), ir.Undefined)
        return self.builder.insert_value(self.builder.insert_value(packed, value[0], 0), value[1], 1)

    def select(self, dtype: DType, condition: Any, yes: Any, no: Any) -> Any:
        """Choose a value without a branch."""
        if dtype.is_complex:
            return tuple(self.builder.select(condition, y, n) for y, n in zip(yes, no, strict=True))
        return self.builder.select(condition, yes, no)

    def branch(self, condition: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """Compute one of two real values."""
        b = self.builder
        sides = [b.append_basic_block(name) for name in ("yes", "no")]
        done = b.append_basic_block("either")
        b.cbranch(condition, *sides)
        found = []
        for block, compute in zip(sides, (yes, no), strict=True):
            b.position_at_end(block)
            found.append((compute(), b.block))
            b.branch(done)
        b.position_at_end(done)
        result = b.phi(found[0][0].type)
        for value, block in found:
            result.add_incoming(value, block)
        return result

    def loop(self, start: Sequence[Any], step: Callable[[Sequence[Any]], tuple[Any, Sequence[Any]]]) -> Any:
        """Step real values, once at least, until a condition, returned first, does not hold any more."""
        b = self.builder
        before = b.block
        body, done = b.append_basic_block("loop"), b.append_basic_block("loop.done")
        b.branch(body)
        b.position_at_end(body)
        values = [b.phi(value.type) for value in start]
        condition, found = step(values)
        for phi, first, after in zip(values, start, found, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(after, b.block)
        b.cbranch(condition, body, done)
        b.position_at_end(done)
        return found

    def shared(self, name: str, function: Callable[..., Any], *args: Any) -> Any:  # noqa: ARG002
        """Write a function out where C++ calls it by its name."""
        return function(*args)

    # -------------------------------------------------------------------------- arithmetic

    def arithmetic(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:
        """Add, subtract, multiply or divide."""
        emit = {"+": self.add, "-": self.sub, "*": self.mul, "/": self.truediv}[symbol]
        return emit(dtype, x, y)

    def add(self, dtype: DType, x: Any, y: Any) -> Any:
        """Sum; logical or of bools."""
        b = self.builder
        if dtype.is_complex:
            return b.fadd(x[0], y[0]), b.fadd(x[1], y[1])
        if dtype.kind == "b":
            return b.or_(x, y)
        return b.fadd(x, y) if dtype.is_floating else wrapping(b, self.machine, "add", x, y)

    def sub(self, dtype: DType, x: Any, y: Any) -> Any:
        """Difference of numbers."""
        b = self.builder
        if dtype.is_complex:
            return b.fsub(x[0], y[0]), b.fsub(x[1], y[1])
        return b.fsub(x, y) if dtype.is_floating else wrapping(b, self.machine, "sub", x, y)

    def mul(self, dtype: DType, x: Any, y: Any) -> Any:
        """Multiply; logical and of bools."""
        b = self.builder
        if dtype.is_complex:
            real = b.fsub(b.fmul(x[0], y[0]), b.fmul(x[1], y[1]))
            return real, b.fadd(b.fmul(x[0], y[1]), b.fmul(x[1], y[0]))
        if dtype.kind == "b":
            return b.and_(x, y)
        return b.fmul(x, y) if dtype.is_floating else wrapping(b, self.machine, "mul", x, y)

    def truediv(self, dtype: DType, x: Any, y: Any) -> Any:
        """Quotient of floats or complex numbers."""
        return self._complex_div(dtype.real, x, y) if dtype.is_complex else self.builder.fdiv(x, y)

    def _complex_div(self, part: DType, x: Any, y: Any) -> Any:
        """Smith's algorithm with the scaling and the zero case of ``c10::complex::operator/=``."""
        b = self.builder
        (re, im), (c, d) = x, y
        abs_c, abs_d = self.abs(part, c), self.abs(part, d)
        big = b.fcmp_ordered(">=", abs_c, abs_d)
        large, small = b.select(big, c, d), b.select(big, d, c)
        ratio = b.fdiv(small, large)
        scale = b.fdiv(self.constant(part, 1), b.fadd(large, b.fmul(small, ratio)))
        first, second = b.select(big, re, im), b.select(big, im, re)
        real = b.fmul(b.fadd(first, b.fmul(second, ratio)), scale)
        cross = b.fmul(first, ratio)
        imag = b.fmul(b.select(big, b.fsub(second, cross), b.fsub(cross, second)), scale)
        zero = self.constant(part, 0)
        is_zero = b.and_(b.fcmp_ordered("==", abs_c, zero), b.fcmp_ordered("==", abs_d, zero))
        return (
            b.select(is_zero, b.fdiv(re, abs_c), real),
            b.select(is_zero, b.fdiv(im, abs_d), imag),
        )

    def floordiv(self, dtype: DType, x: Any, y: Any) -> Any:
        """Floored quotient; integer division by zero gives 0."""
        if dtype.is_floating:
            return self._float_divmod(dtype, x, y)[0]
        return self._integer_divmod(dtype, x, y)[0]

    def mod(self, dtype: DType, x: Any, y: Any) -> Any:
        """Remainder with the divisor's sign; integer remainder by zero is 0."""
        if dtype.is_floating:
            return self._float_divmod(dtype, x, y)[1]
        return self._integer_divmod(dtype, x, y)[1]

    def _float_divmod(self, dtype: DType, x: Any, y: Any) -> tuple[Any, Any]:
        """``c10::div_floor_floating`` and ``at::native``'s remainder; the unused half folds away."""
        b = self.builder
        zero, one = self.constant(dtype, 0), self.constant(dtype, 1)
        rest = self.math("fmod", dtype, x, y)
        signs_differ = b.xor(b.fcmp_ordered("<", y, zero), b.fcmp_ordered("<", rest, zero))
        adjust = b.and_(b.fcmp_unordered("!=", rest, zero), signs_differ)
        quotient = b.fdiv(b.fsub(x, rest), y)
        quotient = b.select(adjust, b.fsub(quotient, one), quotient)
        floored = self.math("floor", dtype, quotient)
        off = b.fcmp_ordered(">", b.fsub(quotient, floored), self.constant(dtype, 0.5))
        floored = b.select(off, b.fadd(floored, one), floored)
        exact = b.fdiv(x, y)
        signed_zero = self.math("copysign", dtype, zero, exact)
        result = b.select(b.fcmp_ordered("==", quotient, zero), signed_zero, floored)
        return (
            b.select(b.fcmp_ordered("==", y, zero), exact, result),
            b.select(adjust, b.fadd(rest, y), rest),
        )

    def _integer_divmod(self, dtype: DType, x: Any, y: Any) -> tuple[Any, Any]:
        """Floored quotient and remainder that never trap: by 0 gives 0, by -1 negates with wrapping."""
        b = self.builder
        zero, one = self.constant(dtype, 0), self.constant(dtype, 1)
        by_zero = b.icmp_signed("==", y, zero)
        if dtype.kind == "u":
            safe = b.select(by_zero, one, y)
            return b.select(by_zero, zero, b.udiv(x, safe)), b.select(by_zero, zero, b.urem(x, safe))
        by_minus_one = b.icmp_signed("==", y, self.constant(dtype, -1))
        safe = b.select(b.or_(by_zero, by_minus_one), one, y)
        quotient, rest = b.sdiv(x, safe), b.srem(x, safe)
        signs_differ = b.icmp_signed("<", b.xor(rest, safe), zero)
        adjust = b.and_(b.icmp_signed("!=", rest, zero), signs_differ)
        quotient = b.select(adjust, b.sub(quotient, one), quotient)
        rest = b.select(adjust, b.add(rest, safe), rest)
        quotient = b.select(by_minus_one, negated(b, self.machine, x), quotient)
        return b.select(by_zero, zero, quotient), b.select(by_zero, zero, rest)

    def neg(self, dtype: DType, x: Any) -> Any:
        """Negate numbers; integers wrap."""
        if dtype.is_complex:
            return self.neg(dtype.real, x[0]), self.neg(dtype.real, x[1])
        if dtype.is_floating:  # NVVM's dialect has no fneg
            return self.builder.fsub(self.constant(dtype, -0.0), x)
        return negated(self.builder, self.machine, x)

    def abs(self, dtype: DType, x: Any) -> Any:
        """Magnitude; of complex numbers it is real."""
        if dtype.is_complex:
            return self.math("hypot", dtype.real, x[0], x[1])
        if dtype.is_floating:
            return self.math("fabs", dtype, x)
        if dtype.kind == "i":
            negative = self.builder.icmp_signed("<", x, self.constant(dtype, 0))
            return self.builder.select(negative, self.neg(dtype, x), x)
        return x

    # -------------------------------------------------------------------------- powers

    def pow(self, dtype: DType, x: Any, y: Any, literal: float | None = None) -> Any:
        """Power of real numbers; `literal` is the exponent where it is known while compiling."""
        if literal is not None:
            found = self.literal_pow(dtype, x, literal)
            if found is not None:
                return found
        if dtype.is_floating:
            return self.math("pow", dtype, x, y)
        return self._integer_pow(dtype, x, y)

    def literal_pow(self, dtype: DType, x: Any, n: float) -> Any:
        """Return a power of a known exponent, or None.

        These are the exponents that torch's CPU and CUDA kernels special-case too; integers take any.
        """
        one = self.constant(dtype, 1)
        if n == 0:
            return one
        if n > 0 and n == int(n) and n <= (64 if dtype.is_integral else 4):
            result, square, rest = None, x, int(n)
            while rest:
                if rest & 1:
                    result = square if result is None else self.mul(dtype, result, square)
                rest >>= 1
                if rest:
                    square = self.mul(dtype, square, square)
            return result
        if dtype.is_integral or n not in (-2, -1, -0.5, 0.5):
            return None
        if n == -1:
            return self.truediv(dtype, one, x)
        if n == -2:
            return self.truediv(dtype, one, self.mul(dtype, x, x))
        if dtype.is_complex:
            return None
        root = self.math("sqrt", dtype, x)
        return root if n > 0 else self.builder.fdiv(one, root)

    def _integer_pow(self, dtype: DType, x: Any, y: Any) -> Any:
        """Square and multiply with wrapping; a negative exponent gives 1/x truncated, as torch."""
        b = self.builder
        kind = x.type
        zero, one = kind(0), kind(1)
        before = b.block
        loop, done = b.append_basic_block("ipow"), b.append_basic_block("ipow.done")
        b.branch(loop)
        b.position_at_end(loop)
        result, base, rest = b.phi(kind), b.phi(kind), b.phi(kind)
        next_result = b.select(b.trunc(rest, I1), b.mul(result, base), result)
        next_base, next_rest = b.mul(base, base), b.lshr(rest, one)
        for phi, start, after in (
            (result, one, next_result),
            (base, x, next_base),
            (rest, y, next_rest),
        ):
            phi.add_incoming(start, before)
            phi.add_incoming(after, loop)
        b.cbranch(b.icmp_signed("!=", next_rest, zero), loop, done)
        b.position_at_end(done)
        if dtype.kind == "u":
            return next_result
        minus_one = kind(-1)
        odd_sign = b.select(b.trunc(y, I1), minus_one, one)
        inverse = b.select(b.icmp_signed("==", x, minus_one), odd_sign, zero)
        inverse = b.select(b.icmp_signed("==", x, one), one, inverse)
        return b.select(b.icmp_signed("<", y, zero), inverse, next_result)

    # ---------------------------------------------------------------- bits and comparisons

    def bitwise(self, name: str, x: Any, y: Any) -> Any:
        """``and_``, ``or_`` or ``xor`` of integers or bools."""
        return getattr(self.builder, name)(x, y)

    def invert(self, condition: Any) -> Any:
        """Whether a condition, an ``i1``, does not hold."""
        return self.builder.not_(condition)

    def shift(self, name: str, dtype: DType, x: Any, y: Any) -> Any:
        """``lshift`` or ``rshift``; distances outside the width shift everything out, as torch."""
        b = self.builder
        width = y.type(dtype.bits)
        inside = b.icmp_unsigned("<", y, width)
        distance = b.select(inside, y, y.type(dtype.bits - 1))
        if name == "rshift" and dtype.kind == "i":
            return b.ashr(x, distance)
        shifted = b.shl(x, distance) if name == "lshift" else b.lshr(x, distance)
        return b.select(inside, shifted, x.type(0))

    def compare(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:
        """Return an ``i1``; of comparisons only ``!=`` and ``uno`` hold for NaN."""
        b = self.builder
        if dtype.is_complex:
            parts = [self.compare(symbol, dtype.real, p, q) for p, q in zip(x, y, strict=True)]
            return b.and_(*parts) if symbol == "==" else b.or_(*parts)
        if dtype.is_floating:
            return b.fcmp_unordered(symbol, x, y) if symbol == "!=" else b.fcmp_ordered(symbol, x, y)
        return b.icmp_signed(symbol, x, y) if dtype.kind == "i" else b.icmp_unsigned(symbol, x, y)

    def extremum(self, symbol: str, dtype: DType, x: Any, y: Any) -> Any:
        """Maximum (``>``) or minimum (``<``); NaN propagates, as in ``torch.maximum``."""
        first = self.compare(symbol, dtype, x, y)
        if dtype.is_floating:
            first = self.builder.or_(first, self.builder.fcmp_unordered("uno", x, x))
        return self.builder.select(first, x, y)

    def gcd(self, dtype: DType, x: Any, y: Any) -> Any:
        """Greatest common divisor by Euclid's algorithm."""
        b = self.builder
        x, y = self.abs(dtype, x), self.abs(dtype, y)
        zero = x.type(0)
        before = b.block
        loop, step = b.append_basic_block("gcd"), b.append_basic_block("gcd.step")
        done = b.append_basic_block("gcd.done")
        b.branch(loop)
        b.position_at_end(loop)
        a, rest = b.phi(x.type), b.phi(x.type)
        b.cbranch(b.icmp_unsigned("!=", rest, zero), step, done)
        b.position_at_end(step)
        b.branch(loop)
        # Unsigned: the magnitude of the smallest integer is right there, and urem cannot overflow.
        b.position_before(step.terminator)
        remainder = b.urem(a, rest)
        a.add_incoming(x, before)
        a.add_incoming(rest, step)
        rest.add_incoming(y, before)
        rest.add_incoming(remainder, step)
        b.position_at_end(done)
        return a

    # ------------------------------------------------------------------------------- math

    def math(self, name: str, dtype: DType, *args: Any) -> Any:
        """Call a math function of real floats of `dtype`, named as in Python's ``math``."""
        b = self.builder
        real = args[0].type
        name = _LIBRARY_NAMES.get(name, name)
        if name in ("isnan", "isinf", "isfinite"):
            return self._classify(name, dtype, args[0])
        if name == "copysign" and self.machine.is_ptx:
            return self._copysign(*args)
        if name == "fmod" and not self.machine.is_ptx:
            return b.frem(*args)
        if name in _HOST_INTRINSICS and not self.machine.is_ptx:
            symbol = f"llvm.{name}.{'f32' if real == ir.FloatType() else 'f64'}"
        else:
            prefix = "__nv_" if self.machine.is_ptx else ""
            symbol = prefix + name + ("f" if real == ir.FloatType() else "")
        kind = ir.FunctionType(real, [real] * len(args))
        function = b.module.globals.get(symbol)
        if function is None:
            function = ir.Function(b.module, kind, symbol)
        return b.call(function, args)

    def _copysign(self, size: Any, sign: Any) -> Any:
        """Put one number's sign to another's size, by their bits.

        Of PTX's ``copysign`` of a number and itself CUDA's assembler (13.0) loses the sign where the bits are
        then shifted and masked, as they are to store four 8-bit floats.
        """
        b = self.builder
        bits = ir.IntType(32 if size.type == ir.FloatType() else 64)
        top = 1 << (bits.width - 1)
        rest = b.and_(b.bitcast(size, bits), ir.Constant(bits, top - 1))
        return b.bitcast(b.or_(rest, b.and_(b.bitcast(sign, bits), ir.Constant(bits, top))), size.type)

    def _classify(self, name: str, dtype: DType, x: Any) -> Any:
        if name == "isnan":
            return self.builder.fcmp_unordered("uno", x, x)
        infinity = self.constant(dtype, float("inf"))
        magnitude = self.math("fabs", dtype, x)
        return self.builder.fcmp_ordered("==" if name == "isinf" else "<", magnitude, infinity)

    def truth(self, dtype: DType, x: Any) -> Any:
        """Return an ``i1``: whether a value is non-zero."""
        return self.convert(x, dtype, dtypes.bool_)
