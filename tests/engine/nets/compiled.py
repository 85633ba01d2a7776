"""Compiles the CUDA form's kernels for GPUs that are not here: Triton and its assembler need none.

This process runs kernels in Triton's interpreter, so they are compiled in a process without TRITON_INTERPRET.
"""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import KernelInterface

SHARED_MEMORY = {80: 163 << 10, 90: 227 << 10}  # bytes of a program, by compute capability
_ROOT = Path(__file__).parents[3]


_TYPES = {
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.uint8: "u8",
    torch.bool: "i1",
}


@dataclass(frozen=True)
class Variant:
    """One kernel to compile.

    Attributes:
        module, name: where it is.
        signature: types of the arguments that are no constants, as ``*bf16`` or ``i32``.
        constants: the others; a PDL among them is set by the compute capability.
        options: of the launch, as num_warps.
    """

    module: str
    name: str
    signature: Mapping[str, str]
    constants: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)


def variant(kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], **options: Any) -> Variant:
    """A kernel by its function."""
    return Variant(kernel.fn.__module__, kernel.__name__, signature, constants, options)


class _Recorder:
    """Stands for a kernel, and records its launches instead of running them."""

    def __init__(self, kernel: Any, found: list[Variant]) -> None:
        self._kernel, self._found = kernel, found

    def __getitem__(self, grid: Any) -> Any:
        return self._record

    def _record(self, *args: Any, **options: Any) -> None:
        signature, constants = {}, {}
        hints = self._kernel.fn.__annotations__
        for name, value in zip(self._kernel.arg_names, args, strict=True):
            if name in hints:
                constants[name] = value
            else:
                signature[name] = f"*{_TYPES[value.dtype]}" if isinstance(value, torch.Tensor) else "i32"
        one = variant(self._kernel, signature, constants, **options)
        if one not in self._found:
            self._found.append(one)


@contextmanager
def recorded_launches(kernels: ModuleType) -> Iterator[list[Variant]]:
    """The different launches of a module's kernels, which do nothing meanwhile."""
    found = list[Variant]()
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in vars(kernels).copy().items():
            if isinstance(kernel, KernelInterface):
                patch.setattr(kernels, name, _Recorder(kernel, found))
        yield found


def compile_kernels(variants: Sequence[Variant], cache: Path) -> list[dict[int, int]]:
    """Bytes of shared memory of each variant by compute capability; fails where one does not compile.

    Args:
        cache: an empty folder.
    """
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env |= {"TRITON_CACHE_DIR": str(cache), "PYTHONPATH": str(_ROOT)}
    asked = json.dumps([asdict(one) for one in variants])
    done = subprocess.run(
        [sys.executable, str(Path(__file__))], input=asked, env=env, capture_output=True, text=True, cwd=_ROOT
    )
    assert done.returncode == 0, f"{done.stderr[-3000:]}\n{done.stdout[-500:]}"
    return [{int(key): value for key, value in one.items()} for one in json.loads(done.stdout)]


def _compile(one: Variant, capability: int) -> int:
    kernel = getattr(importlib.import_module(one.module), one.name)
    constants = {name: capability >= 90 if name == "PDL" else value for name, value in one.constants.items()}
    signature = {**one.signature, **dict.fromkeys(constants, "constexpr")}
    pointers = [kernel.arg_names.index(name) for name, kind in one.signature.items() if kind.startswith("*")]
    aligned = {(number,): [["tt.divisibility", 16]] for number in pointers}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    try:
        made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=dict(one.options))
    except Exception as error:
        raise RuntimeError(f"{one.name} {constants} for sm_{capability}: {error}") from error
    assert made.asm["cubin"]
    return made.metadata.shared


if __name__ == "__main__":
    wanted = [Variant(**one) for one in json.load(sys.stdin)]
    json.dump([{one: _compile(kernel, one) for one in SHARED_MEMORY} for kernel in wanted], sys.stdout)
