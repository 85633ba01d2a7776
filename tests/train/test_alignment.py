"""Phone alignment within known words, and attention guided by it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from studio.core.errors import BadFile
from studio.engine.families.common.text_tokens import Bpe
from studio.engine.nets.transformer import Decoder, DecoderConfig, rotary
from studio.text.phonemes import pronounce
from studio.train.corpus.texts import train_bpe
from studio.train.families.common import NO_TARGET, GuidedHead, phones_of_tokens, token_of_frames
from studio.train.features import PAUSE, PHONES, PhoneModel, Sentence, align, phone_of, save_features
from studio.train.fit.dataset import frame_words

WORDS = ["then", "the", "apple,", "tea."]
SOUND = np.random.default_rng(5).integers(0, 16, (len(PHONES), 80)).astype(np.uint8)  # the sound of each phone


def spoken(words=WORDS, seed: int = 0, pause: int = 4) -> Sentence:
    """Words of phones of two to five frames each with their times; a pause at the start and at marks."""
    rng = np.random.default_rng(seed)
    phones, ends = [PAUSE], list[int]()
    for word, said in zip(words, pronounce(words), strict=True):
        for phone in filter(None, map(phone_of, said)):
            phones += [phone] * int(rng.integers(2, 6))
        ends.append(len(phones))
        phones += [PAUSE] * (pause if word[-1] in ",." else 0)
    levels = SOUND[phones].astype(np.int16) + rng.integers(-1, 2, (len(phones), 80))
    return Sentence("one", [*words], ends, levels.clip(0, 15).astype(np.uint8), np.array(phones, np.uint8))


def unaligned(sentence: Sentence) -> Sentence:
    """The same as a voice reports it: a pause ends the word before it, and phones are unknown."""
    of_frame = frame_words(sentence)
    ends = [int((of_frame <= word).sum()) for word in range(len(sentence.words))]
    return replace(sentence, word_ends=ends, phones=np.ones_like(sentence.phones))


@pytest.fixture(scope="module")
def book() -> PhoneModel:
    return PhoneModel.estimate(spoken(seed=seed) for seed in range(6))


def test_phones_and_ends_are_recovered(book):
    for seed in range(10, 16):
        true = spoken(seed=seed)
        assert unaligned(true).word_ends != true.word_ends, "otherwise the test is trivial"
        found = align(unaligned(true), book)
        assert found is not None and found.word_ends == true.word_ends
        assert found.phones.tolist() == true.phones.tolist()
        assert found.speaker == "one" and found.words == WORDS


def test_pause_takes_frames_only_where_it_is_audible(book):
    found = align(unaligned(spoken(seed=20, pause=0)), book)
    assert found is not None and PAUSE not in found.phones[1:].tolist() and found.phones[0] == PAUSE


def test_words_with_too_few_frames_or_no_phonemes_are_left_out(book):
    true = unaligned(spoken(seed=21))
    assert align(replace(true, word_ends=[1, *true.word_ends[1:]]), book) is None, "four phones in a frame"
    assert align(replace(true, words=["then", "the", "apple,", "."]), book) is None


def test_unseen_phone_gets_the_lowest_likelihood(book):
    other = align(unaligned(spoken(["then", "the", "apple,", "zoo."], seed=22)), book)
    assert np.isnan(book.mean[PHONES.index("z")]).all() and other is not None
    assert np.isfinite(book.score(other.levels)).all()


def test_corpus_without_pauses_or_phones_is_refused(tmp_path):
    mute = replace(spoken(), phones=np.full(len(spoken().phones), PAUSE, np.uint8))
    save_features("one", [mute], SOUND[:4], tmp_path / "one-000.safetensors")
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(BadFile, match="no pauses or no phones"):
            PhoneModel.load(folder)


def decode_guided(decoder: Decoder, x, queries, first, last=None):
    """Decoder output and loss."""
    head = GuidedHead(decoder, queries, first, last)
    return decoder(x, watch=head), head.loss


def test_frame_belongs_to_the_token_of_its_phone():
    pau, a, b, c = PAUSE, 1, 2, 3
    words = np.array([0] * 8 + [1] * 4)
    phones = np.array([pau, a, a, a, a, b, c, pau, b, b, b, pau], np.uint8)
    said = [[(a,), (b, c), ()], [(), (b,)]]  # the second token has two phones; a mark; a silent symbol
    assert token_of_frames(words, phones, said).tolist() == [0, 0, 0, 0, 0, 1, 1, 2, 4, 4, 4, 4]


def test_mispronounced_phone_keeps_its_position():
    phones = np.array([1, 1, 9, 3, 3], np.uint8)
    assert token_of_frames(np.zeros(5, int), phones, [[(1,), (2,), (3,)]]).tolist() == [0, 0, 1, 2, 2]


def test_tokens_without_phones_share_their_words_frames_evenly():
    phones = np.array([1, 1, 1, 1, 1, 2, 0], np.uint8)
    letters = [[(), (), ()]]
    assert token_of_frames(np.array([0] * 6 + [1]), phones, letters).tolist() == [0, 0, 1, 1, 2, 2, NO_TARGET]
    hurried = [[(1, 2), (3, 4, 5, 6, 7)]]
    assert token_of_frames(np.array([0] * 6 + [1]), phones, hurried).tolist() == [0, 0, 0, 1, 1, 1, NO_TARGET]


def test_token_has_the_phones_it_is_spelled_with(tmp_path):
    train_bpe([["then", "the", "apple,", "tea."]] * 20, 70, tmp_path / "bpe.json", "phonemes")
    bpe = Bpe.read(tmp_path / "bpe.json")
    phones = phones_of_tokens(bpe)
    for word, heard in (("then", "dh eh n"), ("apple,", "ae p ax l")):
        assert [PHONES[one] for token in bpe.encode(word) for one in phones[token]] == heard.split()
    train_bpe([["then", "the"]] * 20, 40, tmp_path / "letters.json")
    assert set(phones_of_tokens(Bpe.read(tmp_path / "letters.json"))) == {()}


@pytest.fixture
def decoder() -> Decoder:
    torch.manual_seed(4)
    made = Decoder(DecoderConfig(3, 32, 2, 48))
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def test_guiding_does_not_change_the_output(decoder):
    x = torch.randn(2, 12, 32)
    hidden, _ = decode_guided(decoder, x, torch.tensor([5]), torch.tensor([2]))
    torch.testing.assert_close(hidden, decoder(x))


def test_loss_is_the_heads_attention_at_the_token(decoder):
    x = torch.randn(2, 12, 32)
    seen = []
    hook = decoder.blocks[1].norm_attention.register_forward_hook(lambda block, given, out: seen.append(given[0]))
    queries, keys = torch.tensor([5, 12 + 7, 12 + 9]), torch.tensor([2, 7, NO_TARGET])
    _, lost = decode_guided(decoder, x, queries, keys)
    hook.remove()
    block, expected = decoder.blocks[1], []
    q, k, _ = block.project(seen[0], *rotary(torch.arange(12), 16, 10_000.0))
    for row, at, key in ((0, 5, 2), (1, 7, 7)):
        shares = (k[row, 0, : at + 1] @ q[row, 0, at] / 4.0).softmax(0)
        expected.append(-shares[key].log())
    torch.testing.assert_close(lost, torch.stack(expected).mean())


def test_attention_anywhere_in_a_span_is_accepted(decoder):
    x, query = torch.randn(1, 12, 32), torch.tensor([9])
    alone = [decode_guided(decoder, x, query, torch.tensor([key]))[1] for key in range(3, 7)]
    _, lost = decode_guided(decoder, x, query, torch.tensor([3]), torch.tensor([6]))
    torch.testing.assert_close(lost, -torch.stack(alone).neg().exp().sum().log())
    _, all_of_it = decode_guided(decoder, x, query, torch.tensor([0]), torch.tensor([9]))
    torch.testing.assert_close(all_of_it, torch.tensor(0.0))


def test_without_targets_there_is_no_loss(decoder):
    _, lost = decode_guided(decoder, torch.randn(1, 6, 32), torch.tensor([3]), torch.tensor([NO_TARGET]))
    assert lost == 0.0 and lost.isfinite()


def test_head_learns_its_alignment(decoder):
    torch.manual_seed(5)
    x, queries = torch.randn(4, 20, 32), torch.arange(4 * 20).view(4, 20)[:, 10:].flatten()
    keys = (queries % 20) // 2
    optim = torch.optim.Adam(decoder.parameters(), lr=0.01)
    found = []
    for _ in range(60):
        _, lost = decode_guided(decoder, x, queries, keys)
        optim.zero_grad()
        lost.backward()
        optim.step()
        found.append(float(lost.detach()))
    assert found[-1] < 0.5 < 2.0 < found[0]
