"""Products of a few rows and a panel of weights, with all sums in registers: LLVM code that numba inlines in kernels.

Caches of compiled kernels depend on this file, too (``jit``).
"""

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

PANEL = 32  # adjacent columns of a weight: four registers of eight
_LANES = 8
_LINE_BYTES, _AHEAD_BYTES = 64, 8192  # of a cache, and the prefetch distance
_MAX_TILE_ROWS = 3  # twelve sums, three inputs and a weight fill the sixteen registers of AVX2

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_REGISTER = ir.VectorType(_F32, _LANES)


def _tile(rows: int, panels: int) -> Any:
    """A function that multiplies ``rows`` rows by ``panels`` panels, with all sums in registers.

    Its arguments are contiguous arrays: (x [N, >= K], first row, weight [P, K, PANEL] float32 or bfloat16 as uint16,
    first panel, out [N, P' * PANEL], first panel of the output).
    """

    @intrinsic
    def tile(
        typing: Any,
        x: types.Array,
        first: types.Integer,
        weight: types.Array,
        panel: types.Integer,
        out: types.Array,
        out_panel: types.Integer,
    ) -> Any:
        is_half = weight.dtype == types.uint16
        step_bytes = PANEL * (2 if is_half else 4)

        def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
            arrays = [
                context.make_array(kind)(context, b, value)
                for kind, value in ((x, args[0]), (weight, args[2]), (out, args[4]))
            ]
            (x_at, w_at, out_at) = (b.ptrtoint(one.data, _I64) for one in arrays)
            sizes = [cgutils.unpack_tuple(b, one.shape) for one in arrays]
            x_row, out_row = (b.mul(sizes[one][1], _I64(4)) for one in (0, 2))
            depth = sizes[1][1]
            panel_bytes = b.mul(depth, _I64(step_bytes))
            w_at = b.add(w_at, b.mul(args[3], panel_bytes))
            x_at = b.add(x_at, b.mul(args[1], x_row))
            out_at = b.add(b.add(out_at, b.mul(args[1], out_row)), b.mul(args[5], _I64(PANEL * 4)))
            lanes = PANEL // _LANES
            sums = [[cgutils.alloca_once(b, _REGISTER) for _ in range(panels * lanes)] for _ in range(rows)]
            for one in (sum_ for row in sums for sum_ in row):
                b.store(ir.Constant(_REGISTER, [0.0] * _LANES), one)
            with cgutils.for_range(b, depth) as loop:
                here = b.add(x_at, b.mul(loop.index, _I64(4)))
                inputs = [_broadcast(b, b.add(here, b.mul(x_row, _I64(row)))) for row in range(rows)]
                for index in range(panels):
                    at = b.add(b.add(w_at, b.mul(panel_bytes, _I64(index))), b.mul(loop.index, _I64(step_bytes)))
                    for line in range(step_bytes // _LINE_BYTES):
                        _prefetch(b, b.add(at, _I64(_AHEAD_BYTES + line * _LINE_BYTES)))
                    for lane, numbers in enumerate(_weights(b, at, is_half), index * lanes):
                        for row in range(rows):
                            b.store(_fused_add(b, inputs[row], numbers, b.load(sums[row][lane])), sums[row][lane])
            for row in range(rows):
                here = b.add(out_at, b.mul(out_row, _I64(row)))
                for lane in range(panels * lanes):
                    to = b.inttoptr(b.add(here, _I64(lane * _LANES * 4)), _REGISTER.as_pointer())
                    b.store(b.load(sums[row][lane]), to, align=4)
            return context.get_dummy_value()

        return types.void(x, types.int64, weight, types.int64, out, types.int64), generate

    return tile


def _broadcast(b: ir.IRBuilder, address: Any) -> Any:
    """One number in all lanes of a register."""
    none, index = ir.Constant(_REGISTER, ir.Undefined), ir.VectorType(_I32, _LANES)
    one = b.insert_element(none, b.load(b.inttoptr(address, _F32.as_pointer()), align=4), _I32(0))
    return b.shuffle_vector(one, none, ir.Constant(index, [0] * _LANES))


def _weights(b: ir.IRBuilder, address: Any, is_half: bool) -> Iterator[Any]:
    """A panel's weights of one input, eight at a time.

    bfloat16 is the upper half of a float32: sixteen are read as eight words whose lower halves are the first eight.
    """
    words = ir.VectorType(_I32, _LANES)
    for first in range(0, PANEL, 2 * _LANES if is_half else _LANES):
        if not is_half:
            yield b.load(b.inttoptr(b.add(address, _I64(4 * first)), _REGISTER.as_pointer()), align=4)
            continue
        loaded = b.load(b.inttoptr(b.add(address, _I64(2 * first)), words.as_pointer()), align=4)
        yield b.bitcast(b.shl(loaded, ir.Constant(words, [16] * _LANES)), _REGISTER)
        yield b.bitcast(b.and_(loaded, ir.Constant(words, [0xFFFF0000] * _LANES)), _REGISTER)


def _prefetch(b: ir.IRBuilder, address: Any) -> None:
    """Prefetch memory; harmless for an invalid address."""
    byte = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [byte, _I32, _I32, _I32])
    fetch = cgutils.get_or_insert_function(b.module, kind, "llvm.prefetch.p0i8")
    b.call(fetch, [b.inttoptr(address, byte), _I32(0), _I32(3), _I32(1)])


def _fused_add(b: ir.IRBuilder, input_: Any, weights: Any, sum_: Any) -> Any:
    """Multiply and add; fused where the CPU supports it, and then for every row."""
    kind = ir.FunctionType(_REGISTER, [_REGISTER] * 3)
    return b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.fmuladd.v{_LANES}f32"), [input_, weights, sum_])


tile_of_1, tile_of_2, tile_of_3 = (_tile(rows, 1) for rows in range(1, _MAX_TILE_ROWS + 1))
tile_of_1_by_2 = _tile(1, 2)  # four sums of one row alone would leave the adders idle


def _widen(typing: Any, weight: types.Array, panel: types.Integer, out: types.Array) -> Any:
    """Convert a panel of bfloat16 [P, K, PANEL] to float32 [1, K, PANEL]: three rows leave no register for it."""
    is_half = weight.dtype == types.uint16
    step_bytes = PANEL * (2 if is_half else 4)

    def generate(context: Any, b: ir.IRBuilder, signature: Any, args: Any) -> Any:
        arrays = [context.make_array(kind)(context, b, value) for kind, value in ((weight, args[0]), (out, args[2]))]
        w_at, out_at = (b.ptrtoint(one.data, _I64) for one in arrays)
        depth = cgutils.unpack_tuple(b, arrays[0].shape)[1]
        w_at = b.add(w_at, b.mul(args[1], b.mul(depth, _I64(step_bytes))))
        with cgutils.for_range(b, depth) as loop:
            at = b.add(w_at, b.mul(loop.index, _I64(step_bytes)))
            _prefetch(b, b.add(at, _I64(_AHEAD_BYTES)))
            to = b.add(out_at, b.mul(loop.index, _I64(PANEL * 4)))
            for lane, numbers in enumerate(_weights(b, at, is_half)):
                b.store(numbers, b.inttoptr(b.add(to, _I64(lane * _LANES * 4)), _REGISTER.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(weight, types.int64, out), generate


widen_panel: Any = intrinsic(_widen)
