"""Baseline: the same decoder in a stock ``transformers`` generate loop with a static cache."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from studio.engine.voices import Voice

_VOCABULARY = 1280  # 80 channels x 16 levels, the width of our heads
NOTE = (
    "random weights of the same sizes; its norms subtract a mean, it does not normalise queries and keys, and it draws "
    "one token where ours draws 80 levels"
)


@dataclass(frozen=True)
class Stock:
    """Sizes of a decoder."""

    layers: int
    width: int
    heads: int
    hidden: int
    device: torch.device

    @classmethod
    def of(cls, voice: Voice) -> "Stock":
        """The sizes of a voice's net."""
        config = voice.card.config
        layers, width, heads, hidden = (int(config[name]) for name in ("layers", "width", "heads", "hidden"))
        return cls(layers, width, heads, hidden, voice.device)


def stock_loop(stock: Stock, contexts: Sequence[int], steps: int) -> dict[str, Any]:
    """Time a token at each context; ``left_out`` gives the reason where that is not possible."""
    if find_spec("transformers") is None:
        return {"left_out": "transformers is not installed: pip install 'streaming-tts-studio[bench]'"}
    import transformers
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, StaticCache

    transformers.logging.set_verbosity_error()
    config = GPTNeoXConfig(
        vocab_size=_VOCABULARY,
        hidden_size=stock.width,
        num_hidden_layers=stock.layers,
        num_attention_heads=stock.heads,
        intermediate_size=stock.hidden,
        hidden_act="relu2",
        max_position_embeddings=4096,
        use_parallel_residual=False,
    )
    with torch.device(stock.device):
        model: Any = GPTNeoXForCausalLM(config).eval()
    runs = []
    for context in contexts:
        ids = torch.randint(_VOCABULARY, (1, context), device=stock.device)

        def generate(count: int, ids: torch.Tensor = ids, context: int = context) -> float:
            cache = StaticCache(config=config, max_cache_len=context + count + 1)
            began_s = time.perf_counter()
            model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                past_key_values=cache,
                do_sample=True,
                min_new_tokens=count,
                max_new_tokens=count,
                pad_token_id=0,
            )
            if stock.device.type == "cuda":
                torch.cuda.synchronize(stock.device)
            return time.perf_counter() - began_s

        generate(2)
        # The difference between a long and a short run excludes the prompt.
        ms = min((generate(steps + 2) - generate(2)) * 1000.0 / steps for _ in range(3))
        runs.append({"context": context, "ms": ms})
    about = {"version": transformers.__version__, "model": "GPTNeoXForCausalLM", "note": NOTE}
    return about | {"parameters": sum(p.numel() for p in model.parameters()), "runs": runs}
