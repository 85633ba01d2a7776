"""Make the references of ``kyutai_lm/`` with Kyutai's code: a tiny random model, and the names of the published one.

The environment is that of ``make_mimi.py``; the command is

    PYTHONPATH=FOLDER NO_TORCH_COMPILE=1 python tests/oracles/make_kyutai_lm.py

Files: ``tiny.json`` (a ``config.json`` in Kyutai's format), ``tiny.safetensors`` (weights under the published names),
``reference.safetensors`` (tokens, conditions, logits) and ``published.json`` (dtype and shape of each parameter of
``kyutai/tts-1.6b-en_fr``); voices in the format of ``kyutai/tts-voices``.
``speech.json`` is written by hand.
"""

import copy
import json
import re
from pathlib import Path
from typing import Any

import torch
from moshi.conditioners import ConditionType, TensorCondition
from moshi.models import loaders
from moshi.models.lm import LMModel
from moshi.models.tts import Entry, StateMachine, TokenIds, TTSModel
from safetensors.torch import save_file
from torch import Tensor

FOLDER = Path(__file__).with_name("kyutai_lm")
SPEECH = json.loads((FOLDER / "speech.json").read_text())  # what is spoken: tokens of words, delay and padding in steps
FULL: dict[str, Any] = {
    "card": 2048,
    "n_q": 32,
    "dep_q": 32,
    "delays": [0, 0, *[2] * 31],
    "dim": 2048,
    "text_card": 8000,
    "existing_text_padding_id": 3,
    "num_heads": 16,
    "num_layers": 16,
    "hidden_scale": 4.125,
    "causal": True,
    "layer_scale": None,
    "context": 500,
    "max_period": 10000,
    "gating": "silu",
    "norm": "rms_norm_f32",
    "positional_embedding": "rope",
    "depformer_dim": 1024,
    "depformer_num_heads": 16,
    "depformer_num_layers": 4,
    "depformer_dim_feedforward": 3072,
    "depformer_multi_linear": True,
    "depformer_pos_emb": "none",
    "depformer_weights_per_step": True,
    "depformer_weights_per_step_schedule": [*range(8), *[8] * 8, *[9] * 8, *[10] * 8],
    "depformer_low_rank_embeddings": 128,
    "demux_second_stream": True,
    "cross_attention": True,
    "conditioners": {
        "speaker_wavs": {"type": "tensor", "tensor": {"dim": 512}},
        "cfg": {"type": "lut", "lut": {"n_bins": 7, "dim": 16, "tokenizer": "noop"}},
        "control": {"type": "lut", "lut": {"n_bins": 1, "dim": 2048, "tokenizer": "noop"}},
    },
    "fuser": {
        "cross_attention_pos_emb": True,
        "cross_attention_pos_emb_scale": 1,
        "sum": ["control", "cfg"],
        "prepend": [],
        "cross": ["speaker_wavs"],
    },
}
TINY = FULL | {
    "card": 8,
    "n_q": 4,
    "dep_q": 4,
    "delays": [0, 0, 2, 2, 2],
    "dim": 16,
    "text_card": 12,
    "num_heads": 2,
    "num_layers": 2,
    "context": 10,
    "depformer_dim": 16,
    "depformer_num_heads": 2,
    "depformer_num_layers": 2,
    "depformer_dim_feedforward": 24,
    "depformer_weights_per_step_schedule": [0, 1, 2, 2],
    "depformer_low_rank_embeddings": 4,
    "conditioners": {
        "speaker_wavs": {"type": "tensor", "tensor": {"dim": 6}},
        "cfg": {
            "type": "lut",
            "lut": {"n_bins": 3, "dim": 4, "tokenizer": "noop", "possible_values": ["1.0", "1.5", "2.0"]},
        },
        "control": {"type": "lut", "lut": {"n_bins": 1, "dim": 16, "tokenizer": "noop", "possible_values": ["ok"]}},
    },
}
ROWS, STEPS, SPEAKER_VECTORS = 2, 24, 5
VOICES = [FOLDER / "voice_0.safetensors", FOLDER / "voice_1.safetensors"]
LONGEST = 80  # steps


def build(config: dict[str, Any], device: str, dtype: torch.dtype) -> LMModel:
    """Kyutai's model, untrained. Its loader writes into the configuration."""
    return loaders.get_moshi_lm(None, copy.deepcopy(config), device=device, dtype=dtype)


def published(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parameters under the published names: attention projections of all sets of weights as one."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        projection = re.fullmatch(r"(.+)\.(in|out)_projs\.\d+\.weight", name)
        if projection is None:
            found[name] = tensor
            continue
        one = projection[1] + (".in_proj_weight" if projection[2] == "in" else ".out_proj.weight")
        found[one] = torch.cat((found[one], tensor)) if one in found else tensor
    return {name: tensor.contiguous() for name, tensor in found.items()}


@torch.no_grad()
def references(model: LMModel) -> dict[str, Tensor]:
    """Tokens [B, 1 + K, T], conditions, and the logits of both transformers for them."""
    tokens = torch.randint(TINY["card"], (ROWS, 1 + TINY["n_q"], STEPS))
    tokens[:, 0] = torch.randint(TINY["text_card"], (ROWS, STEPS))
    tokens[:, 0, 5:9] += (TINY["text_card"] + 1) * torch.randint(1, 9, (ROWS, 4))  # two text tokens at once
    tokens[:, :, 0] = -1
    tokens[0, 2:, 3] = -1
    speakers = torch.randn(ROWS, SPEAKER_VECTORS, 6)
    present = torch.ones(ROWS, SPEAKER_VECTORS, dtype=torch.bool)
    present[1, 3:] = False
    labels = {"cfg": torch.tensor([[2], [-1]]), "control": torch.tensor([[0], [0]])}
    conditions = conditions_of(model, speakers, present, labels)
    sums, cross = model.fuser.get_sum(conditions), model.fuser.get_cross(conditions)
    hidden, text_logits = model.forward_text(tokens, sums, cross)
    logits = model.forward_depformer_training(tokens, hidden)
    found = {"tokens": tokens, "speakers": speakers, "present": present, **labels, "hidden": hidden}
    found |= {"text_logits": text_logits[:, 0], "logits": logits}
    return found | speech(model, conditions)


def conditions_of(model: LMModel, speakers: Tensor, present: Tensor, labels: dict[str, Tensor]) -> dict[str, Any]:
    """The conditions as the model takes them."""
    conditions = {}
    for name, conditioner in model.condition_provider.conditioners.items():
        if name == "speaker_wavs":
            conditions[name] = conditioner(TensorCondition(speakers, present))
        else:
            bins = TINY["conditioners"][name]["lut"]["n_bins"]
            known = labels[name] >= 0
            conditions[name] = conditioner(ConditionType(torch.where(known, labels[name], bins), known))
    return conditions


def speech(model: LMModel, conditions: dict[str, Any]) -> dict[str, Tensor]:
    """Two texts spoken with the most probable tokens: fed text, frames [B, K, T], when words began and texts ended."""
    tokens = TokenIds(TINY["text_card"] + 1)
    machine = StateMachine(tokens, second_stream_ahead=2, max_padding=SPEECH["longest_pad"], initial_padding=2)
    provider = model.condition_provider
    tts = TTSModel(
        model,
        None,
        None,
        "",
        "",
        machine,
        delay_steps=SPEECH["delay_steps"],
        temp=0.0,
        n_q=TINY["n_q"],
        max_gen_length=LONGEST,
    )
    voices = provider.prepare_and_provide([tts.make_condition_attributes(VOICES, 2.0)])
    sums, cross = model.fuser.get_sum(voices), model.fuser.get_cross(voices)
    provider.prepare_and_provide = lambda attributes: conditions
    texts = [[Entry(word, str(word)) for word in words] for words in SPEECH["words"]]
    result = tts.generate(texts, [None] * ROWS)
    frames = torch.cat(result.frames, 2)[:, 1:]
    fed = torch.tensor([[pair[1] for pair in row] for row in result.logged_text_tokens])
    begun = {f"begun_{row}": torch.tensor(times) for row, times in enumerate(result.all_consumption_times)}
    return {"frames": frames, "fed": fed, "ends": torch.tensor(result.end_steps), **begun, "sum": sums, "cross": cross}


def write_manifest(folder: Path, tiny: dict[str, Any], full: dict[str, Any]) -> None:
    """The tiny model's configuration, and the parameters of the published one."""
    (folder / "tiny.json").write_text(json.dumps(tiny, indent=2) + "\n")
    with torch.device("meta"):
        state = published(build(full, "meta", torch.bfloat16).state_dict())
    kinds = {torch.float32: "F32", torch.bfloat16: "BF16"}
    lines = (f'  {json.dumps(name)}: ["{kinds[one.dtype]}", {list(one.shape)}]' for name, one in sorted(state.items()))
    (folder / "published.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    torch.manual_seed(11)
    torch.set_num_threads(1)
    model = build(TINY, "cpu", torch.float32).eval()
    for name, one in model.state_dict().items():
        one.add_(torch.randn_like(one) * (0.2 if "norm" in name else 0.15))
    model.text_linear.weight.data[[0, 3]] *= 3  # beginnings of words and padding are probable
    for path in VOICES:
        save_file({"speaker_wavs": torch.randn(1, 6, 3)}, path)
    save_file(published(model.state_dict()), FOLDER / "tiny.safetensors")
    save_file({name: one.contiguous() for name, one in references(model).items()}, FOLDER / "reference.safetensors")
    write_manifest(FOLDER, TINY, FULL)


if __name__ == "__main__":
    main()
