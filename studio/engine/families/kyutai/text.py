"""Text of Kyutai's models: SentencePiece tokens of a word (Kudo and Richardson 2018)."""

from pathlib import Path

from studio.core.errors import BadVoice, needs
from studio.core.files import read_bounded

_MAX_BYTES = 16_000_000  # the published one has 120,378
_DO = "fetch the tokenizer that belongs to the model"
# As the training data was read.
_REPLACED = str.maketrans({"’": "'", ":": " ", "(": None, ")": None})


class KyutaiText:
    """Words to tokens.

    Args:
        path: a SentencePiece model, such as ``tokenizer_spm_8k_en_fr_audio.model``.
        tokens: that the language model knows (``text_card``).

    Raises:
        BadVoice: the file is missing or no SentencePiece model, or has more tokens.
        NeedsPackage: sentencepiece is not installed.
    """

    def __init__(self, path: Path, tokens: int) -> None:
        with needs("Kyutai's text is read by sentencepiece, which is not installed", "kyutai"):
            from sentencepiece import SentencePieceProcessor
        try:
            self._pieces = SentencePieceProcessor(model_proto=read_bounded(path, _MAX_BYTES))
        except (OSError, ValueError, RuntimeError) as error:
            raise BadVoice(f"{path} is not a SentencePiece model: {error!s:.200}", _DO) from error
        if self._pieces.vocab_size() > tokens:
            raise BadVoice(f"{path} has {self._pieces.vocab_size()} tokens, and the model knows {tokens}", _DO)

    def encode(self, word: str) -> list[int]:
        """Tokens of a word; none for brackets and colons alone."""
        return [token for one in word.translate(_REPLACED).split() for token in self._pieces.encode(one)]
