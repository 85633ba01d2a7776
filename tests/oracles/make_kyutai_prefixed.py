"""Make the references of ``kyutai_prefixed/`` with Kyutai's code: a tiny random model whose voice is an audio prefix.

The environment and the command are those of ``make_kyutai_lm.py``. Files: ``tiny.json``, ``tiny.safetensors``,
``reference.safetensors`` (tokens, logits, prefixes, and speech without and with guidance) and ``published.json`` (dtype
and shape of each parameter of ``kyutai/tts-0.75b-en-public``).
"""

from pathlib import Path
from typing import Any

import torch
from make_kyutai_lm import FULL, LONGEST, SPEECH, TINY, build, published, write_manifest
from moshi.conditioners import ConditionAttributes
from moshi.models.lm import LMModel
from moshi.models.tts import Entry, StateMachine, TokenIds, TTSModel
from safetensors.torch import save_file
from torch import Tensor

FOLDER = Path(__file__).with_name("kyutai_prefixed")
_PREFIXED: dict[str, Any] = {
    "text_card_out": 5,
    "cross_attention": False,
    "conditioners": {},
    "fuser": {
        "cross_attention_pos_emb": False,
        "cross_attention_pos_emb_scale": 1,
        "sum": [],
        "prepend": [],
        "cross": [],
    },
}
PUBLISHED = FULL | {
    "n_q": 16,
    "dep_q": 16,
    "delays": [0, 0, *[2] * 15],
    "dim": 1024,
    "num_layers": 24,
    "depformer_weights_per_step_schedule": [*range(8), *[8] * 8],
    **_PREFIXED,
}
SMALL = TINY | _PREFIXED
PREFIX_STEPS = (7, 3)  # of each row: longer and shorter than the delay
GUIDANCE = 2.0
STEPS = 24


@torch.no_grad()
def references(model: LMModel) -> dict[str, Tensor]:
    """Tokens [B, 1 + K, T] and the logits of both transformers for them; prefixes, and what is spoken after them."""
    rows = len(PREFIX_STEPS)
    tokens = torch.randint(SMALL["card"], (rows, 1 + SMALL["n_q"], STEPS))
    tokens[:, 0] = torch.randint(SMALL["text_card"], (rows, STEPS))
    tokens[:, 0, :6] = -1  # as in a prefix
    hidden, text_logits = model.forward_text(tokens, None, None)
    logits = model.forward_depformer_training(tokens, hidden)
    found = {"tokens": tokens, "hidden": hidden, "text_logits": text_logits[:, 0], "logits": logits}
    prefixes = [torch.randint(SMALL["card"], (1 + SMALL["n_q"], steps)) for steps in PREFIX_STEPS]
    for row, prefix in enumerate(prefixes):
        prefix[0] = -1
        found[f"prefix_{row}"] = prefix[1:]
    for name, guidance in (("plain", 1.0), ("guided", GUIDANCE)):
        found |= {f"{name}.{key}": one for key, one in speech(model, prefixes, guidance).items()}
    return found


def speech(model: LMModel, prefixes: list[Tensor], guidance: float) -> dict[str, Tensor]:
    """See ``speech`` of ``make_kyutai_lm.py``; steps count from the beginning of the prefix."""
    machine = StateMachine(
        TokenIds(SMALL["text_card"] + 1), second_stream_ahead=2, max_padding=SPEECH["longest_pad"], initial_padding=2
    )
    tts = TTSModel(
        model,
        None,
        None,
        "",
        "",
        machine,
        delay_steps=SPEECH["delay_steps"],
        temp=0.0,
        cfg_coef=guidance,
        n_q=SMALL["n_q"],
        max_gen_length=LONGEST,
    )
    texts = [[Entry(word, str(word)) for word in words] for words in SPEECH["words"]]
    result = tts.generate(texts, [ConditionAttributes() for _ in texts], prefixes=[one.clone() for one in prefixes])
    fed = torch.tensor([[pair[1] for pair in row] for row in result.logged_text_tokens])
    begun = {f"begun_{row}": torch.tensor(times) for row, times in enumerate(result.all_consumption_times)}
    frames = torch.cat(result.frames, 2)[:, 1:]
    return {"frames": frames, "fed": fed, "ends": torch.tensor(result.end_steps), **begun}


def main() -> None:
    torch.manual_seed(13)
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    model = build(SMALL, "cpu", torch.float32).eval()
    for name, one in model.state_dict().items():
        one.add_(torch.randn_like(one) * (0.2 if "norm" in name else 0.15))
    model.text_linear.weight.data[[0, 3]] *= 3  # beginnings of words and padding are probable
    save_file(published(model.state_dict()), FOLDER / "tiny.safetensors")
    save_file({name: one.contiguous() for name, one in references(model).items()}, FOLDER / "reference.safetensors")
    write_manifest(FOLDER, SMALL, PUBLISHED)


if __name__ == "__main__":
    main()
