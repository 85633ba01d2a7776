"""In which numbers a device trains."""

import torch


def arithmetic(device: torch.device) -> torch.dtype:
    """bfloat16; float32 on a CPU without AVX-512, which multiplies bfloat16 fifty times more slowly (docs/adr/0022)."""
    if device.type == "cpu" and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        return torch.float32
    return torch.bfloat16
