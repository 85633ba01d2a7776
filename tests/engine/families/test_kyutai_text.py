"""Words to SentencePiece tokens, as Kyutai's code reads a script."""

import io
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from studio.core.errors import BadVoice
from studio.engine.families.kyutai.text import KyutaiText

TOKENS = 36
_SENTENCES = ["It's a small world: the rain has stopped (again).", "Nobody has to wait until the last one is there."]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenizer with the published one's ids of unknown, begin, end and padding."""
    model, path = io.BytesIO(), tmp_path_factory.mktemp("text") / "tokenizer.model"
    ids = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 3}
    SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 20), model_writer=model, vocab_size=TOKENS, minloglevel=2, **ids
    )
    path.write_bytes(model.getvalue())
    return path


def test_words_are_tokens_after_kyutais_replacements(path: Path) -> None:
    text, pieces = KyutaiText(path, TOKENS), SentencePieceProcessor(str(path))
    assert text.encode("stopped") == pieces.encode("stopped") and len(text.encode("stopped")) > 1
    assert text.encode("It’s") == text.encode("It's")
    assert text.encode("(again).") == text.encode("again.")
    assert text.encode("world:the") == [*text.encode("world"), *text.encode("the")]
    assert text.encode("()") == []


def test_a_file_that_does_not_fit_is_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(BadVoice, match="is not a SentencePiece model"):
        KyutaiText(tmp_path / "absent.model", TOKENS)
    (tmp_path / "text.model").write_text("not a model")
    with pytest.raises(BadVoice, match="is not a SentencePiece model"):
        KyutaiText(tmp_path / "text.model", TOKENS)
    with pytest.raises(BadVoice, match="has 36 tokens, and the model knows 35"):
        KyutaiText(path, TOKENS - 1)
