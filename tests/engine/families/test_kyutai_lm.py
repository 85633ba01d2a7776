"""Kyutai's language model against Kyutai's own code (``tests/oracles/make_kyutai_lm.py``), and its published names."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from engine.families.kyutai_rows import FORMS, tiny_net
from oracles.safetensors_size import file_bytes
from safetensors.torch import load_file, save_file
from torch import Tensor

from studio.core.errors import BadVoice
from studio.engine.families.kyutai.config import KyutaiConfig
from studio.engine.families.kyutai.model import KyutaiLM, KyutaiState, load_kyutai_lm
from studio.engine.families.kyutai.passages import KyutaiNet

ORACLE = Path(__file__).parents[2] / "oracles" / "kyutai_lm"
PUBLISHED: dict[str, Any] = json.loads((ORACLE / "published.json").read_text())
VALUES: dict[str, Any] = json.loads((ORACLE / "tiny.json").read_text())
TINY = KyutaiConfig.read_published(VALUES)


@pytest.fixture(scope="module", params=FORMS)
def net(request: pytest.FixtureRequest) -> KyutaiNet:
    return tiny_net("kyutai_lm", request.param)


@pytest.fixture(scope="module")
def reference() -> dict[str, Tensor]:
    return load_file(ORACLE / "reference.safetensors")


def begin(net: KyutaiNet, reference: dict[str, Tensor], rows: list[int]) -> KyutaiState:
    state = net.init_state(len(rows), reference["speakers"].shape[1])
    state.others = net.attend(reference["speakers"][rows], reference["present"][rows])
    state.offset = net.offset({name: reference[name][rows] for name in ("cfg", "control")})
    return state


def tokens_of(reference: dict[str, Tensor]) -> Tensor:
    """[B, T, 1 + K]; Kyutai's are [B, 1 + K, T]."""
    return reference["tokens"].transpose(1, 2)


def run(net: KyutaiNet, tokens: Tensor, state: KyutaiState, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Hidden states and text logits of tokens given a few steps at a time."""
    parts = [net.advance(part, state, torch.arange(len(tokens))) for part in tokens.split(sizes, dim=1)]
    hidden, logits = zip(*parts, strict=True)
    return torch.cat(hidden, 1), torch.cat(logits, 1)


def relative_error(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@pytest.mark.parametrize("sizes", [[24], [1] * 24, [5, 1, 18]])
def test_the_backbone_is_kyutais_in_any_chunks(net: KyutaiNet, reference: dict[str, Tensor], sizes: list[int]) -> None:
    hidden, logits = run(net, tokens_of(reference), begin(net, reference, [0, 1]), sizes)
    assert relative_error(hidden, reference["hidden"]) < 1e-5
    assert relative_error(logits, reference["text_logits"]) < 1e-5


def test_rows_do_not_depend_on_their_batch(net: KyutaiNet, reference: dict[str, Tensor]) -> None:
    tokens = tokens_of(reference)
    for row in (0, 1):
        _, logits = run(net, tokens[[row]], begin(net, reference, [row]), [1] * 24)
        assert relative_error(logits, reference["text_logits"][[row]]) < 1e-5


def test_the_depth_transformer_is_kyutais(net: KyutaiNet, reference: dict[str, Tensor]) -> None:
    tokens, hidden = tokens_of(reference).flatten(0, 1), reference["hidden"].flatten(0, 1)
    seen = list[Tensor]()

    def given(codebook: int, logits: Tensor) -> Tensor:
        seen.append(logits)
        return tokens[:, 1 + codebook]

    codes = net.depth(hidden, tokens[:, 0], given)
    assert torch.equal(codes, tokens[:, 1:])
    expected = reference["logits"].permute(0, 2, 1, 3).flatten(0, 1)  # of [B, K, T, card]
    assert relative_error(torch.stack(seen, 1), expected) < 1e-5


def test_names_and_shapes_are_the_published_ones() -> None:
    with torch.device("meta"):
        net = KyutaiLM(KyutaiConfig())
    assert {name: list(one.shape) for name, one in net.state_dict().items()} == {
        name: shape for name, (_, shape) in PUBLISHED.items()
    }


def test_published_names_make_a_file_of_the_published_size() -> None:
    """``dsm_tts_1e68beda@240.safetensors`` has 3,683,719,712 bytes."""
    shapes = {name: shape for name, (_, shape) in PUBLISHED.items()}
    assert file_bytes(shapes, {name: dtype for name, (dtype, _) in PUBLISHED.items()}) == 3_683_719_712


def test_weights_are_loaded_as_bfloat16_by_default(reference: dict[str, Tensor]) -> None:
    net = load_kyutai_lm(ORACLE / "tiny.safetensors", TINY)
    assert {one.dtype for one in net.state_dict().values()} == {torch.bfloat16}
    state = begin(net, reference | {"speakers": reference["speakers"].bfloat16()}, [0, 1])
    _, logits = run(net, tokens_of(reference), state, [1] * 24)
    assert logits.dtype == torch.bfloat16
    assert relative_error(logits.float(), reference["text_logits"]) < 0.05


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    weights = load_file(ORACLE / "tiny.safetensors")
    weights["extra_heads.0.weight"] = torch.zeros(6, 16)
    save_file(weights, tmp_path / "other.safetensors")
    with pytest.raises(BadVoice, match=r"has unknown extra_heads\.0\.weight;"):
        load_kyutai_lm(tmp_path / "other.safetensors", TINY)
    with pytest.raises(BadVoice, match=r"lacks depformer"):
        load_kyutai_lm(ORACLE / "tiny.safetensors", KyutaiConfig())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gating": "gelu"}, "gating is 'gelu', and only 'silu' is known"),
        ({"cross_attention": False}, "conditioners are others than none"),
        ({"conditioners": {}}, "conditioners are others than speaker_wavs, cfg, control"),
        ({"conditioners": 3}, "cannot be read"),
        ({"dim": "wide"}, "dim cannot be 'wide'"),
        ({"delays": [0, 0]}, "another length than the codebooks"),
        ({"num_heads": 3}, "heads do not divide the width"),
        ({"max_period": None}, "cannot be read"),
    ],
)
def test_a_configuration_of_another_model_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(BadVoice, match=says):
        KyutaiConfig.read_published(VALUES | change)
