"""Facts of dtypes, in one table. Standard library only: the loader uses it too."""

from __future__ import annotations

from dataclasses import dataclass

#: Unit roundoff of double, in which references are computed: it shows where the output is a double.
_DOUBLE = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class Format:
    """A floating-point format of IEEE 754's kind: digits of the significand, and the exponent of the largest number."""

    digits: int
    exponent: int
    #: Whether the roundings of a sum count as independent: errors are likely ones then, no worst cases.
    likely: bool = False

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number."""
        return 2.0 ** (1 - self.digits)

    @property
    def u(self) -> float:
        """The unit roundoff: the largest relative error of rounding to nearest, half of ``eps``."""
        return 2.0**-self.digits

    @property
    def rounding(self) -> float:
        """The relative error of one operation and of the same operation in the reference."""
        return self.u + _DOUBLE

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return (2 - self.eps) * 2.0**self.exponent

    @property
    def least_normal(self) -> float:
        """The least positive number that is not subnormal."""
        return 2.0 ** (1 - self.exponent)

    @property
    def least(self) -> float:
        """The least positive number."""
        return self.least_normal * self.eps


FORMATS = {
    "f64": Format(digits=53, exponent=1023),
    "f32": Format(digits=24, exponent=127),
    "f16": Format(digits=11, exponent=15),
    "bf16": Format(digits=8, exponent=127),
}
#: Complex dtypes, each with that of its parts.
COMPLEX = {"c64": "f32", "c128": "f64"}
#: Names of dtypes in NumPy; JAX and PyTorch have the same.
FRAMEWORK_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16",
    "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8",
    "u64": "uint64", "u32": "uint32", "u16": "uint16", "u8": "uint8", "bool": "bool",
    "c64": "complex64", "c128": "complex128",
}  # fmt: skip
