"""Run a module in double with the error that a correct program is likely to have, carried through ATen operators.

For each tensor there is one of the same shape with the root of the mean square error of a program that computes in the dtypes of
the module, in any order, with functions about as exact as the package allows the reference's. Roundings are taken as independent
(Higham and Mary, A new approach to probabilistic rounding error analysis, 2019), so errors add up by their squares: a sum of n
terms has an error of sqrt(n) roundings of its partial sums. The bound is ``CONFIDENCE`` times that.

Operators without a rule are decomposed by PyTorch. What is left is sampled: run on operands that are off by their errors, and in
the dtype of the program. Where even that is impossible, or errors leave the tensors, the bound is a multiple of what PyTorch is
off by.

All tensors hold doubles. The program sees its own dtypes (``OwnDtypes``), because it converts to the dtypes of its inputs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from mlir_matrix.actions.api import ActionFailed

aten = torch.ops.aten
#: How many times the likely error the bound is: five standard deviations are for the worst of a million elements, the rest because
#: errors with a common cause, such as the factor of a normalisation, are not independent.
CONFIDENCE = 10.0
#: The root of the mean square of one rounding, in eps: uniform in half a unit in the last place, over all mantissas.
ROUNDING = 0.25
#: How many times an operator without a rule is sampled, and of the sum of all errors how much has a common cause.
SAMPLES, COMMON = 4, 0.25
#: From how many terms on the drift of a sum is measured, and by what it is divided to be a likely error.
MANY, DRIFT = 32, 2.0
#: Without an analysis: how often the largest error of float32 eager, and units in the last place of the largest value.
EMPIRICAL, EMPIRICAL_EPS = 32.0, 64.0
#: What PyTorch itself gives as the dtype of a tensor.
DTYPE = torch.Tensor.dtype
#: What gives the elements of a tensor to Python, without an operator.
LEAVES = (Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__dlpack__)
#: How grid_sample calls the way without interpolation.
NEAREST = 1
RULES: dict[Any, Callable[..., Any]] = {}


class UnknownError(Exception):
    """An operator whose errors are not known."""


class RandomError(Exception):
    """An operator that draws random numbers."""


def run_with_bounds(
    built: Any, plain: Sequence[Any], own: Sequence[tuple[Tensor, torch.dtype]], again: Callable[[], Any]
) -> list[tuple[numpy.ndarray[Any, Any], Any, str]]:
    """Return for each leaf of the result its value in double, the bound of its error (None for no tensor), and the reason.

    A bound is negative where PyTorch itself overflows: what is not finite is right there, too.
    ``built`` is the module in double; ``plain`` has the leaves of the result in the module's own dtypes; ``own`` the dtype of each
    tensor of ``built`` in the program. ``again`` makes the same as ``built``.
    """
    default = torch.get_default_dtype()
    mode = Bounds()
    for tensor, dtype in own:
        mode.program(tensor, dtype)
    try:
        with torch.no_grad(), mode, OwnDtypes(mode):
            returned = built.call()
    except RandomError as error:
        raise ActionFailed(f"the module draws random numbers: {error}") from None
    except Exception as error:  # noqa: BLE001 - whatever ends the analysis, the module may still run without it
        mode.lost = str(error) if isinstance(error, UnknownError) else f"{type(error).__name__}: {error}"[:200]
        # The module may have changed its buffers. Its parameters are drawn as before.
        built = again()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                returned = built.call()
        except Exception as unfit:  # noqa: BLE001 - code of others
            raise ActionFailed(f"the module has no reference, because it does not run in float64: {unfit}") from None
    finally:
        torch.set_default_dtype(default)
    return [_leaf(mode, value, kept) for value, kept in zip(pytree.tree_leaves(returned), plain, strict=True)]


def _leaf(mode: Bounds, value: Any, own: Any) -> tuple[Any, Any, str]:
    if not isinstance(value, Tensor):
        return None, None, ""
    array = value.detach().contiguous()
    if not is_real(own):
        return array.to(own.dtype).numpy(), None, "integers and booleans are exact"
    # The error of a complex number is its distance from the exact one.
    wide = torch.complex128 if own.is_complex() else torch.float64
    exact, eps = array.to(wide).resolve_conj().numpy(), torch.finfo(own.dtype).eps
    given = own.detach().to(wide).resolve_conj().numpy()
    with numpy.errstate(all="ignore"):
        # What is beyond the range of the dtype is what PyTorch makes of it. Where that overflows before, both are right.
        rounded = torch.from_numpy(exact).to(own.dtype).to(wide).numpy()
        exact = numpy.where(numpy.isfinite(exact) & numpy.isinf(rounded) & ~numpy.isnan(given), given, exact)
        overflows = numpy.isfinite(exact) & ~numpy.isfinite(given)
        apart = numpy.abs(given - exact)
        largest = float(numpy.abs(exact[numpy.isfinite(exact)]).max(initial=0.0))
        most = float(apart[numpy.isfinite(apart)].max(initial=0.0))
    whole = EMPIRICAL * most + EMPIRICAL_EPS * eps * largest
    if mode.lost:
        bound = numpy.full(exact.shape, whole)
        how = f"empirical: {EMPIRICAL:g} times the largest error of PyTorch itself, {most:.3g}, and {EMPIRICAL_EPS:g} eps of the "
        how += f"largest value; no analysis, because of {mode.lost}"
    else:
        error = mode.error(value)
        bound = numpy.zeros(exact.shape) if error is None else CONFIDENCE * error.double().contiguous().numpy()
        bound = bound + eps / 2 * numpy.abs(exact)
        # An error without limit, as of chaotic iterations, says nothing.
        bound = numpy.where(numpy.isfinite(bound), bound, whole)
        sampled = f", {mode.sampled} of them sampled" if mode.sampled else ""
        how = f"derived: {CONFIDENCE:g} times the likely error of {mode.count} ATen operators{sampled}"
    return exact, numpy.where(overflows, -bound, bound), how


def rule(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the rule of some operators: called with the mode, the operator and its arguments."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(operators, function))
        return function

    return register


class Shadows:
    """Values beside the elements of tensors, by their memory, so that views share them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], tuple[StorageWeakRef, Any]] = {}
        self._added = 0

    def find(self, tensor: Tensor) -> Any:
        """Return what is kept for the memory of a tensor, or None."""
        kept = self._kept.get((tensor.untyped_storage()._cdata, tensor.is_complex()))
        return kept[1] if kept and not kept[0].expired() else None

    def keep(self, tensor: Tensor, value: Any) -> None:
        """Keep a value as long as the memory lives."""
        self._added += 1
        if self._added % 8 == 0:
            self._kept = {key: each for key, each in self._kept.items() if not each[0].expired()}
        storage = tensor.untyped_storage()
        self._kept[storage._cdata, tensor.is_complex()] = StorageWeakRef(storage), value


class Bounds(TorchDispatchMode):  # type: ignore[misc]
    """Keeps the error of each element; ``unit`` is the likely relative error of one rounding in the dtype of the program."""

    def __init__(self) -> None:
        super().__init__()
        self.dtype, self.count, self.sampled, self.depth = torch.float32, 0, 0, 0
        #: Whether ``dtype`` is the program's. PyTorch's own functions make masks in that of their operands, which is double here.
        self.known = True
        #: Where errors left the tensors of the program, so that the bounds of its results are not known.
        self.lost = ""
        self.generator = torch.Generator().manual_seed(0)
        self._errors, self._dtypes = Shadows(), Shadows()

    @property
    def unit(self) -> float:
        return ROUNDING * float(torch.finfo(self.dtype).eps)

    def program(self, tensor: Tensor, dtype: torch.dtype) -> None:
        """Record the dtype that a tensor has in the program. Here all are double."""
        if dtype.is_floating_point:
            self._dtypes.keep(tensor, dtype)

    def own_dtype(self, tensor: Tensor) -> torch.dtype:
        """Return the dtype that a tensor has in the program; in rules, that which it has here."""
        held: torch.dtype = DTYPE.__get__(tensor)
        if self.depth or not (held.is_floating_point or held.is_complex):
            return held
        own: torch.dtype = self._dtypes.find(tensor) or (held if held.itemsize < 8 else torch.float32)
        return own.to_complex() if held.is_complex else own

    def doubled(self, tensor: Any) -> Any:
        """Return a constant of the program, such as a table that is no buffer, in double."""
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point() or tensor.dtype == torch.float64:
            return tensor
        made = tensor.double()
        self.program(made, tensor.dtype)
        return made

    def error(self, tensor: Any) -> Tensor | None:
        """Return the error of a tensor; None if it is exact."""
        if not isinstance(tensor, Tensor) or (found := self._errors.find(tensor)) is None:
            return None
        made: Tensor = found.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        return made

    def of(self, tensor: Any) -> Tensor:
        """Return the error of a tensor, which may be all 0."""
        found = self.error(tensor)
        return torch.zeros(tensor.shape, dtype=torch.float64) if found is None else found

    def leaves(self, tensor: Tensor) -> None:
        """Record that the elements of a tensor are Python's from here on. Exact ones lose nothing."""
        if (error := self.error(tensor)) is not None and bool((error > 0).any()):
            self.lost = "Python numbers from a tensor"

    def note(self, tensor: Tensor, error: Tensor | None) -> Tensor:
        """Record the error of a result."""
        if error is None:
            return tensor
        if self._errors.find(tensor) is None:
            cells = tensor.untyped_storage().nbytes() // tensor.element_size()
            self._errors.keep(tensor, torch.zeros(cells, dtype=torch.float64))
        kept, error = self.error(tensor), error.expand(tensor.shape)
        assert kept is not None
        for dim, stride in enumerate(tensor.stride()):
            if stride == 0 and tensor.shape[dim]:
                kept, error = kept.narrow(dim, 0, 1), error.narrow(dim, 0, 1)
        kept.copy_(error)
        return tensor

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before, default = (self.dtype, self.known), torch.get_default_dtype()
        self.count += 1
        self.depth += 1
        torch.set_default_dtype(torch.float64)
        try:
            leaves, form = pytree.tree_flatten((args, kwargs or {}))
            if function is aten.lift_fresh.default or not (function.is_view or _is_in_place(function)):
                leaves = [self.doubled(each) for each in leaves]
            self.dtype, self.known = self._promoted(leaves)
            made = self._apply(function, *pytree.tree_unflatten(leaves, form))
            for each in pytree.tree_leaves(made):
                if self.known and isinstance(each, Tensor) and self._dtypes.find(each) is None:
                    self.program(each, self.dtype)
            return made
        finally:
            self.dtype, self.known = before
            self.depth -= 1
            torch.set_default_dtype(default)

    def _promoted(self, leaves: Sequence[Any]) -> tuple[torch.dtype, bool]:
        """Return the dtype in which a program computes, of scalars only where there is nothing else, and whether it is known."""
        tensors = [each for each in leaves if isinstance(each, Tensor) and each.is_floating_point()]
        tensors = [each for each in tensors if each.dim()] or tensors
        dtypes = [each for each in map(self._dtypes.find, tensors) if each is not None]
        if not dtypes:
            return torch.float32, not tensors
        return functools.reduce(torch.promote_types, dtypes), True

    def _apply(self, function: Any, args: Any, kwargs: Any) -> Any:
        packet = function.overloadpacket
        if packet is aten.view and isinstance(args[1], torch.dtype):
            raise UnknownError("a view of bits as another dtype")
        is_complex = any(isinstance(each, Tensor) and each.is_complex() for each in pytree.tree_leaves((args, kwargs)))
        found = RULES.get(packet) or RULES.get(getattr(aten, packet.__name__, None))
        if found is not None and (not is_complex or found in EVEN_COMPLEX):
            return found(self, function, *args, **kwargs)
        if torch.Tag.inplace_view in function.tags:
            return function(*args, **kwargs)
        if _is_in_place(function):
            return self._in_place(function, args, kwargs)
        # What a decomposition gives has the dtype of its last operator, if that is known.
        known, self.known = self.known, False
        if function in decomposition_table:
            with self:
                return decomposition_table[function](*args, **kwargs)
        made = NotImplemented
        with self:
            made = function.decompose(*args, **kwargs)
        if made is not NotImplemented:
            return made
        self.known = known
        if function.is_view:
            return function(*args, **kwargs)
        if torch.Tag.nondeterministic_seeded in function.tags:
            raise RandomError(str(packet))
        return sampled(self, function, args, kwargs)

    def _in_place(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Compute the result apart, then write it and its error."""
        name = function.overloadpacket.__name__.rstrip("_")
        other = getattr(aten, name, None)
        if other is None:
            raise UnknownError(str(function.overloadpacket))
        with self:
            made = other(*args, **kwargs)
            return aten.copy_(args[0], made)


class OwnDtypes(TorchFunctionMode):  # type: ignore[misc]
    """Gives the program the dtypes that its tensors have in it, and sees where their elements become Python's."""

    def __init__(self, bounds: Bounds) -> None:
        super().__init__()
        self.bounds = bounds

    def __enter__(self) -> Any:
        # Not by this mode, which functions of torch.nn.functional do not see.
        Tensor.dtype = property(self.bounds.own_dtype)
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        del Tensor.dtype
        super().__exit__(*raised)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.is_autocast_enabled("cpu"):
            self.bounds.lost = "autocast, which leaves doubles alone"
        elif function in LEAVES:
            self.bounds.leaves(args[0])
        elif function is Tensor.new_tensor:
            kwargs = {"dtype": args[0].dtype, **kwargs}
        elif function is torch.nn.functional.rms_norm and kwargs.get("eps") is None:
            # That of the dtype in which it computes.
            kwargs["eps"] = torch.finfo(torch.promote_types(args[0].dtype, torch.float32)).eps
        elif function is Tensor.type_as or (function is Tensor.to and isinstance(args[1], Tensor)):
            return args[0].to(args[1].dtype)
        return function(*args, **kwargs)


def _is_in_place(function: Any) -> bool:
    name = function.overloadpacket.__name__
    return name.endswith("_") and not name.endswith("__")


def _share(a: Tensor, b: Tensor) -> bool:
    """Return whether tensors share memory, and so their errors."""
    return bool(a.untyped_storage()._cdata == b.untyped_storage()._cdata)


def is_real(tensor: Any) -> bool:
    """Return whether something is a tensor whose elements are rounded."""
    return isinstance(tensor, Tensor) and (tensor.is_floating_point() or tensor.is_complex())


def sampled(mode: Bounds, function: Any, args: Any, kwargs: Any) -> Any:
    """Run an operator on operands that are off by their errors, and in the program's dtype: that far is its result off."""
    leaves, form = pytree.tree_flatten((args, kwargs))

    def run(change: Callable[[Tensor], Tensor]) -> list[Tensor]:
        given, named = pytree.tree_unflatten([change(each) if is_real(each) else each for each in leaves], form)
        return [each for each in pytree.tree_leaves(function(*given, **named)) if is_real(each)]

    def moved(tensor: Tensor) -> Tensor:
        if (error := mode.error(tensor)) is None:
            return tensor
        signs = torch.randint(0, 2, tensor.shape, generator=mode.generator, dtype=torch.float64)
        return tensor + (2 * signs - 1) * error

    made = function(*args, **kwargs)
    values = [each for each in pytree.tree_leaves(made) if is_real(each)]
    if not values:
        return made
    mode.sampled += 1
    squares = [torch.zeros(each.shape, dtype=torch.float64) for each in values]
    for _ in range(SAMPLES if any(mode.error(each) is not None for each in leaves) else 0):
        for at, off in enumerate(run(moved)):
            squares[at] += torch.nan_to_num((off - values[at]).abs(), nan=0.0) ** 2 / SAMPLES
    try:
        narrow = run(lambda each: each.to(torch.complex64 if each.is_complex() else mode.dtype))
    except Exception:  # noqa: BLE001 - an operator that this dtype lacks
        narrow = values
    for value, square, off in zip(values, squares, narrow, strict=True):
        own = torch.nan_to_num((off.to(value.dtype) - value).abs(), nan=0.0, posinf=0.0) ** 2
        # Few samples may be near 0 by chance; all of a tensor are not.
        all_of = square + own
        settle(mode, value, all_of + all_of.mean() if all_of.numel() else all_of, 4.0)
    return made


def settle(mode: Bounds, value: Tensor, squares: Tensor, own: float | Tensor = 1.0, *, rounded: bool = False) -> Tensor:
    """Record a result: the squares of the errors that come from before, and ``own`` roundings of its size.

    ``rounded``: every program gives the dtype's nearest number, so that nothing is lost where exact operands give one that it has.
    """
    limits, size = torch.finfo(mode.dtype), value.abs()
    # Targets flush subnormal numbers to 0, but not those of float16, which are no small numbers.
    least = limits.tiny * limits.eps if mode.dtype == torch.float16 else limits.tiny
    error = (size * (own * mode.unit)).add_(own * least)
    if rounded:
        error = torch.where((squares == 0) & (value.to(mode.dtype) == value), 0.0, error)
    error = error.square_().add_(squares).sqrt_()
    # What is beyond the dtype of the program, such as the least number of double as a mask, is as infinite there.
    if size.numel() and not float(size.max()) < limits.max:
        error = torch.where(size < limits.max, error, 0.0)
    return mode.note(value, error.nan_to_num_(nan=math.inf, posinf=math.inf))


def summed(mode: Bounds, value: Tensor, squares: Tensor, terms: float) -> Tensor:
    """Return the squares of the error of sums of so many terms, whose squares add up to ``squares``.

    One after the other: partial sums grow to the sum, or as far as terms of random signs go.
    """
    return mode.unit**2 * (squares + max(terms - 1.0, 0.0) * (value.abs() ** 2 + squares) / 2)


# Moves: what an operator does to the elements it does to their errors.

MOVES = (
    aten.view, aten._unsafe_view, aten.reshape, aten.permute, aten.transpose, aten.t, aten.expand, aten.slice,
    aten.select, aten.squeeze, aten.unsqueeze, aten.clone, aten.detach, aten.alias, aten.as_strided, aten.flip,
    aten.roll, aten.repeat, aten.diagonal, aten.unfold, aten.split, aten.split_with_sizes, aten.chunk, aten.unbind,
    aten.gather, aten.index_select, aten.index, aten.embedding, aten.tril, aten.triu, aten.contiguous, aten.lift_fresh,
    aten.lift_fresh_copy, aten.movedim, aten.view_as_real, aten.pixel_shuffle, aten.pixel_unshuffle,
    aten.channel_shuffle, aten._reshape_alias, aten.im2col, aten.reflection_pad1d, aten.reflection_pad2d,
    aten.reflection_pad3d, aten.replication_pad1d, aten.replication_pad2d, aten.replication_pad3d, aten.take,
    aten.masked_select, aten.upsample_nearest1d, aten.upsample_nearest2d, aten.upsample_nearest3d, aten._unsafe_index,
    aten.narrow, aten.swapaxes, aten.diagonal_copy, aten.select_copy, aten.slice_copy, aten.broadcast_to, aten.flatten,
    aten.ravel, aten.view_as,
)  # fmt: skip


@rule(*MOVES)
def _move(mode: Bounds, function: Any, *args: Any, **kwargs: Any) -> Any:
    made = function(*args, **kwargs)
    error = mode.error(args[0])
    if error is None or all(_share(each, args[0]) for each in pytree.tree_leaves(made)):
        return made
    errors = function(error, *args[1:], **kwargs)
    for value, each in zip(pytree.tree_leaves(made), pytree.tree_leaves(errors), strict=True):
        mode.note(value, each)
    return made


@rule(aten.view_as_real, aten.view_as_complex)
def _as_pairs(mode: Bounds, function: Any, tensor: Tensor) -> Any:
    made, error = function(tensor), mode.error(tensor)
    if error is None:
        return made
    return mode.note(made, error.norm(dim=-1) if made.is_complex() else torch.stack([error, error], dim=-1))


@rule(aten._to_copy, torch.ops.prims.convert_element_type)
def _convert(mode: Bounds, function: Any, tensor: Tensor, *to: Any, **kwargs: Any) -> Any:
    """Convert between dtypes. Narrower floating point is one more rounding of a program, and stays double here."""
    dtype = (to[0] if to else kwargs.get("dtype")) or tensor.dtype
    if dtype.is_complex or tensor.is_complex():
        return sampled(mode, function, (tensor, *to), kwargs)
    made = tensor.to(torch.float64 if dtype.is_floating_point else dtype, copy=True)
    error = mode.error(tensor)
    if not dtype.is_floating_point:
        # An element near the next whole number may become that.
        ends = [] if error is None else [(tensor + off).to(dtype).double() for off in (-error, error)]
        return mode.note(made, (ends[1] - ends[0]).abs()) if ends and dtype != torch.bool else made
    if not tensor.is_floating_point():
        mode.dtype, mode.known = (torch.float32, False) if dtype == torch.float64 else (dtype, True)
        return mode.note(made, error)
    # The program's float32 is double here, too.
    before = mode.dtype
    if dtype != torch.float64:
        mode.dtype, mode.known = dtype, True
    narrower = torch.finfo(mode.dtype).eps > torch.finfo(before).eps
    return mode.note(made, mode.of(tensor) + mode.unit * made.abs() if narrower else error)


@rule(aten.copy_)
def _copy(mode: Bounds, function: Any, target: Tensor, source: Tensor, *rest: Any) -> Any:
    made = function(target, source, *rest)
    if mode.error(source) is not None or mode.error(target) is not None:
        mode.note(target, mode.of(source))
    return made


@rule(aten.copy)
def _copied(mode: Bounds, function: Any, target: Tensor, source: Tensor, *rest: Any) -> Any:
    made = function(target, source, *rest)
    return mode.note(made, mode.error(source))


@rule(
    aten.zeros, aten.ones, aten.empty, aten.full, aten.zeros_like, aten.ones_like, aten.empty_like, aten.full_like, aten.new_zeros,
    aten.new_ones, aten.new_empty, aten.new_full, aten.eye, aten.arange, aten.scalar_tensor, aten.empty_strided, aten.tril_indices,
    aten.triu_indices, aten.new_empty_strided,
)  # fmt: skip
def _made(mode: Bounds, function: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a tensor, in double. Its numbers may have to be rounded."""
    dtype = kwargs.get("dtype")
    if dtype is not None and dtype.is_floating_point:
        kwargs = {**kwargs, "dtype": torch.float64}
        mode.dtype, mode.known = (torch.float32, False) if dtype == torch.float64 else (dtype, True)
    made = function(*args, **kwargs)
    if made.is_floating_point():
        rounded = max((_constant(mode, each) for each in args), default=0.0)
        if rounded:
            mode.note(made, torch.full(made.shape, rounded, dtype=torch.float64))
        elif function.overloadpacket is aten.arange and any(isinstance(each, float) for each in args):
            settle(mode, made, torch.zeros(made.shape, dtype=torch.float64), 2.0)
    return made


@rule(aten.linspace, aten.logspace)
def _spaced(mode: Bounds, function: Any, *args: Any, **kwargs: Any) -> Any:
    made = function(*args, **kwargs)
    largest = float(made.abs().max()) if made.numel() else 0.0
    return settle(mode, made, torch.full(made.shape, (2 * mode.unit * largest) ** 2, dtype=torch.float64), 2.0)


@rule(aten.cat, aten.stack)
def _join(mode: Bounds, function: Any, tensors: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
    made = function(tensors, *args, **kwargs)
    if any(mode.error(each) is not None for each in tensors):
        mode.note(made, function([mode.of(each) for each in tensors], *args, **kwargs))
    return made


@rule(aten.constant_pad_nd)
def _pad(mode: Bounds, function: Any, tensor: Tensor, widths: Any, value: Any = 0) -> Any:
    error = mode.error(tensor)
    return mode.note(function(tensor, widths, value), None if error is None else function(error, widths, 0.0))


# Decisions: comparisons whose operands are nearer than their errors may go the other way.


@rule(aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
def _compare(mode: Bounds, function: Any, a: Any, b: Any) -> Any:
    made = function(a, b)
    errors = [each for each in (mode.error(a), mode.error(b)) if each is not None]
    if errors:
        apart = (torch.as_tensor(a).double() - torch.as_tensor(b).double()).abs()
        off = sum(errors)
        mode.note(made, ((apart <= CONFIDENCE * off) & (off > 0)).double())
    return made


@rule(aten.logical_and, aten.logical_or, aten.logical_xor, aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor)
def _logical(mode: Bounds, function: Any, a: Any, b: Any) -> Any:
    errors = [each for each in (mode.error(a), mode.error(b)) if each is not None]
    made = function(a, b)
    return mode.note(made, sum(errors).clamp(max=1.0).expand_as(made)) if errors else made


@rule(aten.logical_not, aten.bitwise_not)
def _not(mode: Bounds, function: Any, a: Tensor) -> Any:
    return mode.note(function(a), mode.error(a))


@rule(aten.argmax, aten.argmin)
def _choose(mode: Bounds, function: Any, tensor: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """Choose a place. Where elements are nearer than their errors, programs choose others, and nothing bounds what follows."""
    off = CONFIDENCE * mode.of(tensor)
    size = tensor if function.overloadpacket is aten.argmax else -tensor
    dims = () if dim is None else (dim,)
    near = size + off >= aten.amax(size - off, dims, True)
    if bool(((near.sum(dims, keepdim=True) > 1) & near & (off > 0)).any()):
        mode.lost = "a choice between elements that are nearer than their errors"
    return function(tensor, dim, keepdim)


@rule(
    aten.isnan,
    aten.isinf,
    aten.any,
    aten.all,
    aten.isfinite,
    aten.nonzero,
    aten.argsort,
    aten.bincount,
    aten.histc,
    aten.bucketize,
    aten.searchsorted,
    aten.count_nonzero,
    aten.unique_dim,
    aten._unique2,
)
def _decide(mode: Bounds, function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@rule(aten.where)
def _where(mode: Bounds, function: Any, condition: Tensor, *both: Any) -> Any:
    made = function(condition, *both)
    if not both:
        return made
    a, b = (torch.as_tensor(each) for each in both)
    errors = [mode.error(condition), mode.error(both[0]), mode.error(both[1])]
    if not made.is_floating_point() or all(each is None for each in errors):
        return made
    error = torch.where(condition, mode.of(a), mode.of(b))
    if errors[0] is not None:
        error = error + torch.where(errors[0] > 0, (a - b).abs(), 0.0)
    return mode.note(made, error)


@rule(aten.masked_fill)
def _masked_fill(mode: Bounds, function: Any, tensor: Tensor, mask: Tensor, value: Any) -> Any:
    filled = torch.as_tensor(value, dtype=tensor.dtype)
    if mode.error(value) is None and (rounded := _constant(mode, value)):
        mode.note(filled, torch.tensor(rounded))
    return _where(mode, aten.where, mask, filled, tensor)


STEPS = (aten.floor, aten.ceil, aten.round, aten.trunc, aten.sign, aten.sgn, aten.heaviside)

# Elementwise functions: what they give at the ends of the interval of each operand.


def at_ends(mode: Bounds, function: Any, args: Sequence[Any], kwargs: Any, made: Tensor) -> Tensor:
    """Return the squares of how far a function of elements is from its value where each operand is off by its error.

    A step is a decision, which an error that may occur takes.
    """
    reach = CONFIDENCE if getattr(function, "overloadpacket", None) in STEPS else 1.0
    squares = torch.zeros_like(made, dtype=torch.float64)
    for place, operand in enumerate(args):
        error = mode.error(operand)
        if error is None and not (error := _constant(mode, operand)):
            continue
        apart = torch.zeros_like(squares)
        for moved in (operand - reach * error, operand + reach * error):
            off = (function(*args[:place], moved, *args[place + 1 :], **kwargs) - made).abs()
            apart = torch.maximum(apart, torch.nan_to_num(off, nan=math.inf))
        # Of many steps, as of a continuous function; of one, all of it.
        squares = squares + torch.maximum(apart / reach, apart.clamp(max=1.0)) ** 2
    # Equal infinities are not apart.
    return torch.where(torch.isfinite(made), squares, torch.zeros_like(squares))


def elementwise(own: float | Callable[..., Any], *operators: Any) -> None:
    """Register functions of elements; ``own``: how many roundings of their result, or a function that returns their error."""

    def call(mode: Bounds, function: Any, *args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        if not isinstance(made, Tensor):
            # The second is a buffer for the gradient.
            return call(mode, lambda *a, **k: function(*a, **k)[0], *args, **kwargs), *made[1:]
        if not made.is_floating_point():
            return made
        squares = at_ends(mode, function, args, kwargs, made)
        if callable(own):
            return settle(mode, made, squares + (mode.unit * own(mode, made, *args)) ** 2, 0.0)
        return settle(mode, made, squares, own)

    rule(*operators)(call)


def _near_one(_mode: Bounds, made: Tensor, *_: Any) -> Tensor:
    """For functions that programs compute by way of numbers near 1, and that have no other name for what is left near 0."""
    return 4 * torch.clamp(made.abs(), min=1.0)


def _times_near_one(_mode: Bounds, _made: Tensor, tensor: Tensor, *_: Any) -> Tensor:
    """For functions that programs compute as a product of their argument and a number near 1."""
    return 4 * tensor.abs()


def _of_erf(mode: Bounds, made: Tensor, *_: Any) -> Tensor:
    """Of narrow dtypes PyTorch's own is a polynomial for float32 (Abramowitz and Stegun 7.1.26), exact beside 1."""
    wide = torch.finfo(torch.float32).eps / torch.finfo(mode.dtype).eps
    return 5 * made.abs() + (4 * wide if wide < 1 else 0.0)


#: Exact but for the errors of their operands.
elementwise(
    0.0,
    aten.neg,
    aten.abs,
    aten.relu,
    aten.maximum,
    aten.minimum,
    aten.clamp,
    aten.clamp_min,
    aten.clamp_max,
    aten.hardtanh,
    aten.relu6,
    aten.fmax,
    aten.fmin,
    *(step for step in STEPS if step is not aten.round),
)


@rule(aten.round)
def _round(mode: Bounds, function: Any, tensor: Tensor, **decimals: Any) -> Any:
    """Round to whole numbers; to decimals, programs scale the operand before and the result after, by factors that are rounded."""
    made = function(tensor, **decimals)
    if not made.is_floating_point():
        return made
    if not decimals.get("decimals"):
        return settle(mode, made, at_ends(mode, function, [tensor], decimals, made), 0.0)
    scaled = settle(mode, tensor.clone(), mode.of(tensor) ** 2, 1.0)
    return settle(mode, made, at_ends(mode, function, [scaled], decimals, made), 2.0)


elementwise(2.0, aten.div, aten.reciprocal, aten.sqrt, aten.square)
elementwise(4.0, aten.rsqrt, aten.hypot)
#: Libraries and approximations are off by up to 2 or 4 units in the last place.
elementwise(4.0, aten.exp, aten.exp2, aten.log, aten.log2, aten.log10)
elementwise(
    5.0,
    aten.sin,
    aten.cos,
    aten.tan,
    aten.asin,
    aten.acos,
    aten.atan,
    aten.cosh,
    aten.acosh,
    aten.atan2,
    aten.tanh,
    aten.log1p,
    aten.expm1,
    aten.sinh,
    aten.asinh,
    aten.atanh,
)
elementwise(8.0, aten.pow, aten.erfinv, aten.lgamma)
elementwise(
    _near_one,
    aten.sigmoid,
    aten.erfc,
    aten.softplus,
    aten.elu,
    aten.log_sigmoid_forward,
)
elementwise(_times_near_one, aten.gelu)
elementwise(_of_erf, aten.erf)
elementwise(4.0, aten.hardsigmoid, aten.hardswish, aten.leaky_relu)


@rule(aten.remainder, aten.fmod)
def _remainder(mode: Bounds, function: Any, a: Any, b: Any) -> Any:
    """Take a whole number of times the second from the first; how many is a decision."""
    made = function(a, b)
    if made.is_floating_point():
        with mode:
            times = (a / b).floor() if function.overloadpacket is aten.remainder else (a / b).trunc()
            mode.note(made, mode.of(a - times * b))
    return made


@rule(aten.add, aten.sub, aten.rsub)
def _add(mode: Bounds, function: Any, a: Any, b: Any, alpha: Any = 1) -> Any:
    made = function(a, b, alpha=alpha)
    if not made.is_floating_point():
        return made
    scales = (abs(alpha), 1.0) if function.overloadpacket is aten.rsub else (1.0, abs(alpha))
    squares = torch.zeros_like(made, dtype=torch.float64)
    for each, scale in zip((a, b), scales, strict=True):
        error = mode.error(each)
        squares = squares + (scale * (_constant(mode, each) if error is None else error)) ** 2
    return settle(mode, made, squares, 1.0 if alpha == 1 else 2.0, rounded=True)


def _constant(mode: Bounds, value: Any) -> float:
    """Return the error of a constant that a program rounds."""
    return (
        abs(value) * mode.unit
        if isinstance(value, float)
        and abs(value) < torch.finfo(mode.dtype).max
        and value != float(numpy.float32(value))
        else 0.0
    )


@rule(aten.mul)
def _multiply(mode: Bounds, function: Any, a: Any, b: Any) -> Any:
    made = function(a, b)
    if not made.is_floating_point():
        return made
    a, b = (each.double() if isinstance(each, Tensor) and not each.is_floating_point() else each for each in (a, b))
    error_a, error_b = (_constant(mode, each) if (known := mode.error(each)) is None else known for each in (a, b))
    squares = (error_a * abs(b)) ** 2 + (abs(a) * error_b) ** 2 + (error_a * error_b) ** 2
    return settle(mode, made, squares + torch.zeros_like(made, dtype=torch.float64), rounded=True)


# Reductions and products.


def _count(tensor: Tensor, dims: Any) -> int:
    if dims is None or (isinstance(dims, (list, tuple)) and not dims):
        return int(tensor.numel())
    places = [dims] if isinstance(dims, int) else dims
    return math.prod(tensor.shape[place] for place in places) if tensor.dim() else 1


@rule(aten.sum, aten.mean, aten.nansum)
def _sum(mode: Bounds, function: Any, tensor: Tensor, *more: Any, dtype: Any = None) -> Any:
    if not tensor.is_floating_point():
        return function(
            tensor, *more, **({} if dtype is None or dtype.is_floating_point is False else {"dtype": torch.float64})
        )
    made = function(tensor, *more)
    terms = _count(tensor, more[0] if more else None)
    scale = 1.0 / max(terms, 1) if function.overloadpacket is aten.mean else 1.0
    error, squares = mode.error(tensor), torch.zeros(made.shape, dtype=torch.float64)
    if (error is None or not error.any()) and scale == 1 and _are_counts(mode, tensor):
        return made
    if error is not None:
        squares = aten.sum(error**2, *more) + (COMMON * aten.sum(error, *more)) ** 2
    own = summed(mode, made / scale, aten.sum(tensor**2, *more), terms)
    row = _as_rows(tensor, *more)
    if terms > 1:
        own = torch.maximum(own, mode.unit**2 * (row.cumsum(-1) ** 2).sum(-1).reshape(made.shape))
        own = torch.maximum(own, _drift(mode, row)[..., -1:].reshape(made.shape) ** 2)
    return settle(mode, made, (squares + own) * scale**2, 0.0 if scale == 1 else 2.0)


def _are_counts(mode: Bounds, tensor: Tensor) -> bool:
    """Return whether all sums of elements are whole numbers that the dtype has."""
    return bool((tensor == tensor.round()).all()) and float(tensor.abs().sum()) < 1 / torch.finfo(mode.dtype).eps


def _as_rows(tensor: Tensor, dims: Any = None, *_: Any) -> Tensor:
    """Return a tensor with the dimensions that are summed as its last one, in the order of the elements."""
    if not tensor.dim():
        return tensor.reshape(1)
    places = [dims] if isinstance(dims, int) else list(dims or range(tensor.dim()))
    return tensor.movedim(places, list(range(-len(places), 0))).flatten(-len(places))


def _drift(mode: Bounds, rows: Tensor) -> Tensor:
    """Return what is likely to be lost where terms are small beside the sum, so that roundings are no longer independent.

    Sums of many terms are added one after the other in float32; of another order it may be some times as much.
    """
    if rows.shape[-1] < MANY or mode.dtype != torch.float32:
        return torch.zeros_like(rows)
    with numpy.errstate(all="ignore"):
        narrow = numpy.cumsum(rows.float().numpy(), axis=-1, dtype=numpy.float32)
    return torch.nan_to_num((torch.from_numpy(narrow) - rows.cumsum(-1)).abs() / DRIFT, posinf=0.0)


@rule(torch.ops.prims.var, aten.var, aten.std, aten.var_mean)
def _variance(
    mode: Bounds, function: Any, tensor: Tensor, dims: Any = None, *more: Any, correction: Any = 1, keepdim: Any = False
) -> Any:
    """Take the mean of the squared distances from the mean, as programs do that care."""
    name = function.overloadpacket.__name__
    if isinstance(dims, bool):
        dims, correction = None, int(dims)
    elif more and isinstance(more[0], bool) and function.overloadpacket is not torch.ops.prims.var:
        correction, keepdim = int(more[0]), more[1] if len(more) > 1 else keepdim
    elif more:
        correction = more[0]
    places = list(range(tensor.dim())) if not dims else [dims] if isinstance(dims, int) else list(dims)
    with mode:
        mean = tensor.mean(places, keepdim=True)
        apart = tensor - mean
        squares = (apart * apart).sum(places, keepdim=bool(keepdim))
        found = squares / max(_count(tensor, places) - float(1 if correction is None else correction), 0.0)
        if name == "std":
            return found.sqrt()
        return (found, mean if keepdim else mean.reshape(found.shape)) if name == "var_mean" else found


@rule(aten.native_batch_norm, aten._native_batch_norm_legit_no_training)
def _batch_norm(
    mode: Bounds, function: Any, x: Tensor, weight: Any, bias: Any, mean: Any, variance: Any, *more: Any
) -> Any:
    """Normalize by known moments; programs may fold them to a factor and a term, which is rounded at its own size."""
    with mode:
        made = decomposition_table[function](x, weight, bias, mean, variance, *more)
    training = function.overloadpacket is aten.native_batch_norm and more[0]
    if mean is None or training:
        return made
    term = (mean / torch.sqrt(variance + more[-1]) * (1.0 if weight is None else weight)).abs()
    apart = 2 * mode.unit * term.reshape(1, -1, *([1] * (x.dim() - 2)))
    mode.note(made[0], torch.hypot(mode.of(made[0]), apart.expand_as(made[0])))
    return made


@rule(
    aten.amax, aten.amin, aten.max, aten.min, aten.max_pool1d, aten.max_pool2d, aten.max_pool3d, aten.max_pool2d_with_indices,
    aten.max_pool3d_with_indices, aten.max_pool1d_with_indices, aten.adaptive_max_pool2d, aten.adaptive_max_pool3d,
    aten.adaptive_max_pool1d,
)  # fmt: skip
def _largest(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Choose an element. Those that are too far from it, as masked ones, have no part in its error."""
    if args and isinstance(args[0], Tensor):
        other = aten.maximum if function.overloadpacket is aten.max else aten.minimum
        return RULES[other](mode, other, tensor, args[0])

    def chosen(change: Tensor) -> Tensor:
        made = function(tensor + change, *args, **kwargs)
        return made if isinstance(made, Tensor) else made[0]

    made = function(tensor, *args, **kwargs)
    if (error := mode.error(tensor)) is not None:
        value = made if isinstance(made, Tensor) else made[0]
        apart = torch.maximum(*((chosen(sign * CONFIDENCE * error) - value).abs() / CONFIDENCE for sign in (-1, 1)))
        mode.note(value, apart.nan_to_num(nan=0.0))
    return made


@rule(aten.sort, aten.topk, aten.kthvalue, aten.median, aten.cummax, aten.cummin)
def _sorted(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Sort; the k-th element moves by no more than the one that moves most."""
    made = function(tensor, *args, **kwargs)
    if (error := mode.error(tensor)) is not None:
        value = made[0] if isinstance(made, (tuple, list)) else made
        mode.note(value, torch.full_like(value, float(error.max()) if error.numel() else 0.0))
    return made


@rule(aten.cumsum)
def _cumsum(mode: Bounds, function: Any, tensor: Tensor, dim: int, **kwargs: Any) -> Any:
    if not tensor.is_floating_point():
        return function(tensor, dim, **kwargs)
    made = function(tensor, dim)
    if not tensor.dim():
        return mode.note(made, mode.error(tensor))
    squares, row = aten.cumsum(mode.of(tensor) ** 2, dim), made.movedim(dim, -1)
    drift = _drift(mode, tensor.movedim(dim, -1)).movedim(-1, dim)
    return settle(mode, made, squares + (mode.unit**2 * (row**2).cumsum(-1)).movedim(-1, dim) + drift**2, 0.0)


@rule(aten.prod, aten.cumprod)
def _product(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Multiply one factor after the other: a relative error for each."""
    made = function(tensor, *args, **kwargs)
    if not tensor.is_floating_point():
        return made
    grown = function(tensor.abs() * (1 + 2 * mode.unit) + mode.of(tensor), *args, **kwargs)
    return settle(mode, made, (grown - made.abs()) ** 2, 1.0)


def multilinear(mode: Bounds, product: Callable[..., Tensor], terms: float, *parts: Tensor) -> Tensor:
    """Sum ``terms`` products of one element of each part."""
    made = product(*parts)
    sizes = [part**2 for part in parts]
    errors = [mode.error(part) for part in parts]
    squares = summed(mode, made, product(*sizes), terms)
    reach = [size if error is None else size + error**2 for size, error in zip(sizes, errors, strict=True)]
    for place, error in enumerate(errors):
        if error is not None:
            squares = squares + product(*reach[:place], error**2, *sizes[place + 1 :])
    return settle(mode, made, squares, 1.0)


@rule(aten.mm, aten.bmm, aten.mv, aten.dot, aten.matmul, aten.vdot)
def _matmul(mode: Bounds, function: Any, a: Tensor, b: Tensor) -> Any:
    return multilinear(mode, function, a.shape[-1] if a.dim() else 1, a, b)


@rule(aten.addmm, aten.baddbmm, aten.addmv)
def _addmm(mode: Bounds, function: Any, c: Tensor, a: Tensor, b: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    with mode:
        product = a @ b
        product = product if alpha == 1 else product * alpha
        return product if beta == 0 else product + (c if beta == 1 else c * beta)


@rule(aten.convolution, aten._convolution)
def _convolution(mode: Bounds, function: Any, x: Tensor, weight: Tensor, bias: Any, *rest: Any) -> Any:
    transposed, groups = rest[3], rest[5]
    taps = math.prod(weight.shape[2:])
    terms = taps * (weight.shape[0] // groups if transposed else weight.shape[1])
    made = multilinear(mode, lambda a, b: function(a, b, None, *rest), terms, x, weight)
    if bias is None:
        return made
    with mode:
        return made + bias.reshape(-1, *([1] * (made.dim() - (2 if made.dim() == x.dim() else 1))))


def linear(terms: Callable[..., float], *operators: Any) -> None:
    """Register operators that add elements with weights of 0 or more; ``terms`` counts them."""

    def call(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        made = function(tensor, *args, **kwargs)
        squares = function(mode.of(tensor) ** 2, *args, **kwargs)
        own = terms(tensor, made, *args) * (mode.unit * function(tensor.abs(), *args, **kwargs)) ** 2
        return settle(mode, made, squares + own, 2.0)

    rule(*operators)(call)


def _of_window(_tensor: Tensor, _made: Tensor, kernel: Any, *_: Any) -> float:
    return float(math.prod(kernel if isinstance(kernel, (list, tuple)) else [kernel])) ** (
        1 if len(kernel) > 1 else _tensor.dim() - 2
    )


def _of_ratio(tensor: Tensor, made: Tensor, *_: Any) -> float:
    return float(max(2.0, 2.0 ** (tensor.dim() - 2) * tensor.numel() / max(made.numel(), 1)))


linear(_of_window, aten.avg_pool1d, aten.avg_pool2d, aten.avg_pool3d)
linear(_of_ratio, aten._adaptive_avg_pool2d, aten._adaptive_avg_pool3d, aten.adaptive_avg_pool1d)
linear(_of_ratio, aten.col2im)


@rule(aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_bicubic2d, aten.upsample_trilinear3d)
def _upsample(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Weigh neighbours by differences of places, which programs compute in float32 at least, and round at the size of the image.

    Cubic weights may be negative, and are twice as steep.
    """
    made = function(tensor, *args, **kwargs)
    pool = getattr(aten, f"max_pool{tensor.dim() - 2}d")
    ones = [1] * (tensor.dim() - 2)
    near = function(pool(tensor.abs(), [3 * one for one in ones], ones, ones), *args, **kwargs).abs()
    squares = function(mode.of(tensor) ** 2, *args, **kwargs).abs()
    steep = 2.0 if function.overloadpacket is aten.upsample_bicubic2d else 1.0
    place = min(mode.unit, ROUNDING * torch.finfo(torch.float32).eps) * max(tensor.shape[2:]) / 2
    return settle(mode, made, squares + ((4 * mode.unit + place) * steep * near) ** 2, 2.0)


@rule(aten.grid_sampler_2d, aten.grid_sampler_3d)
def _grid_sample(mode: Bounds, function: Any, image: Tensor, grid: Tensor, *how: Any) -> Any:
    """Sample where the grid points: so far as a place is off, the result moves along the image.

    To the nearest it jumps, and an error that may occur decides.
    """
    made = function(image, grid, *how)
    squares = function(mode.of(image) ** 2, grid, *how).abs() + (4 * mode.unit * function(image.abs(), grid, *how)) ** 2
    reach = CONFIDENCE if how[0] == NEAREST else 1.0
    off = reach * (mode.of(grid) + 2 * mode.unit * (grid.abs() + 1))
    moved = torch.zeros_like(made)
    for signs in itertools.product((-1.0, 1.0), repeat=grid.shape[-1]):
        there = function(image, grid + off * torch.tensor(signs), *how)
        moved = torch.maximum(moved, (there - made).abs())
    return settle(mode, made, squares + moved**2, 0.0)


@rule(
    aten.scatter_add,
    aten.index_add,
    aten.index_put,
    aten.scatter,
    aten.index_copy,
    aten.masked_scatter,
    aten._index_put_impl,
)
def _scatter(mode: Bounds, function: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    made = function(tensor, *args, **kwargs)
    if not made.is_floating_point():
        return made
    flat = [mode.of(each) ** 2 if isinstance(each, Tensor) and each.is_floating_point() else each for each in args]
    sizes = [each.abs() if isinstance(each, Tensor) and each.is_floating_point() else each for each in args]
    own = mode.unit * function(tensor.abs(), *sizes, **kwargs).abs()
    return settle(mode, made, function(mode.of(tensor) ** 2, *flat, **kwargs).abs() + 8 * own**2, 0.0)


@rule(aten.rrelu_with_noise, aten.rrelu_with_noise_functional)
def _random_relu(
    mode: Bounds, function: Any, x: Tensor, noise: Tensor, lower: Any = 1 / 8, upper: Any = 1 / 3, *how: Any
) -> Any:
    """Draw the slope below 0 in training; else take the mean one."""
    if how and how[0]:
        raise RandomError(str(function.overloadpacket))
    with mode:
        made = aten.leaky_relu(x, (lower + upper) / 2)
    return (made, noise) if function.overloadpacket is aten.rrelu_with_noise_functional else made


@rule(aten._local_scalar_dense, aten.item)
def _item(mode: Bounds, function: Any, tensor: Tensor) -> Any:
    mode.leaves(tensor)
    return function(tensor)


#: Rules that hold for complex numbers, too: those of moves.
EVEN_COMPLEX = {_move, _as_pairs, _copy, _copied, _join, _convert}
