"""The teacher Kokoro: its word times match its sound, on the voice's frame grid."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from train.fake_kokoro import AHEAD, RATE_HZ, STEP, FakeKokoro, tone_hz

from studio.core.clips import to_float
from studio.core.errors import BadFile, BadOption
from studio.engine.tokenizers import dmel
from studio.measure.signal import active_level_db, first_audible_sample
from studio.text.phonemes import phonemise
from studio.train.teachers import kokoro
from studio.train.teachers.port import normalised_words, restore_case
from studio.train.teachers.registry import open_teacher, teacher_of

TEXTS = [
    "The rain stopped just before noon, and the streets began to shine.",
    "Hi.",
    "Could you tell me, please, which platform the morning train leaves from?",
    "In 1999, Dr. Smith paid $12.50 for 3 TTS books!",
]
FOLDER = os.environ.get(kokoro.FOLDER_VARIABLE, "")


@pytest.fixture(scope="module", params=["fake", *(["real"] if FOLDER else [])])
def net(request):
    """The fake, and the real one if its weights exist: both have one contract."""
    return FakeKokoro() if request.param == "fake" else kokoro.OnnxNet(Path(FOLDER))


def _frames(pcm: np.ndarray) -> np.ndarray:
    """Sound of each dMel frame: [F, 600], the first one's first half before the recording."""
    return np.pad(to_float(pcm), (dmel.TIME_BASE.phase, 0)).reshape(-1, STEP)


@pytest.mark.parametrize("text", TEXTS)
def test_net_fulfils_its_contract(net, text):
    """Whole frames per token, exactly as much sound, a silent start; sound is ahead of the durations."""
    symbols = " ".join(phonemise(restore_case(text, normalised_words(text))))
    assert set(symbols) <= set(net.vocabulary)
    made = net.make("af_heart", [0, *(net.vocabulary[s] for s in symbols), 0])
    assert made.sound.dtype == np.float32 and made.frames.dtype == np.int64
    assert len(made.frames) == len(symbols) + 2 and (made.frames >= 1).all()
    assert len(made.sound) == STEP * made.frames.sum()
    silence = STEP * (int(made.frames[0]) - AHEAD - 2)
    loud = active_level_db(made.sound, RATE_HZ)
    assert silence > 0 and first_audible_sample(made.sound, RATE_HZ, loud) >= silence
    later = made.sound[STEP * int(made.frames[0] - AHEAD) :]
    assert first_audible_sample(later, RATE_HZ, loud) < 4 * STEP


@pytest.mark.parametrize("text", TEXTS)
def test_labels_follow_the_grid_and_the_silence_rule(net, text):
    taught = kokoro.synthesise(net, "af_heart", text)
    assert taught is not None
    frames = [e * RATE_HZ / STEP for _, e in taught.phones]
    assert np.allclose(frames, np.rint(frames)) and (np.diff(frames) >= 0).all()
    assert len(dmel.encode(torch.from_numpy(to_float(taught.pcm)))) == round(frames[-1])
    assert taught.words == [w.word for w in normalised_words(text)]
    assert len(taught.word_ends_s) == len(taught.words) and (np.diff([0.0, *taught.word_ends_s]) > 0).all()
    first = first_audible_sample(taught.pcm, RATE_HZ, active_level_db(taught.pcm, RATE_HZ))
    assert first is not None and first < STEP
    assert len(taught.pcm) / RATE_HZ - taught.word_ends_s[-1] < 0.25


def test_every_word_sounds_where_its_label_says():
    """Frame by frame: the tone in each word's frames is its own, and pauses are the marks'."""
    taught = kokoro.synthesise(FakeKokoro(), "af_heart", TEXTS[0])
    assert taught is not None
    frames = _frames(taught.pcm)
    hz = np.fft.rfftfreq(4 * STEP, 1 / RATE_HZ)[np.abs(np.fft.rfft(frames, 4 * STEP)).argmax(axis=1)]
    silent = np.square(frames).mean(axis=1) < 1e-5
    before, word = 0, -1
    inside = False
    for name, end_s in taught.phones:
        end = round(end_s * 40)
        if name in (kokoro.START, kokoro.STOP, kokoro.SPACE):
            inside = False
        elif name not in ",.":
            word += not inside
            inside = True
            assert not silent[before:end].any(), (name, before, end)
            assert np.abs(hz[before:end] - tone_hz(word)).max() < 40, (name, word)
        else:
            assert silent[before:end].all(), (name, before, end)
        if name != kokoro.SPACE and inside and name not in ",.":
            assert end <= round(taught.word_ends_s[word] * 40)
        before = end
    assert word + 1 == len(taught.words)


def test_sound_is_shifted_by_half_a_frame():
    """A click at the start of a teacher's frame is in the middle of the dMel frame of that number."""
    sound = np.zeros(20 * STEP, np.float32)
    sound[4 * STEP : 12 * STEP] = 0.1 * np.sin(np.arange(8 * STEP) / 4)
    made = kokoro.KokoroOutput(sound, np.array([4, 8, 8]))
    cut, frames = kokoro.cut_silence(made, dmel.TIME_BASE)
    assert (len(cut) + dmel.TIME_BASE.phase) % STEP == 0 and (len(cut) + dmel.TIME_BASE.phase) // STEP == frames.sum()
    assert list(frames) == [1, 8, 6]  # one silent frame, half of it in the recording; six after the sound
    assert np.flatnonzero(np.abs(cut) > 1e-3)[0] in range(STEP - 300, STEP - 300 + 60)


@pytest.mark.parametrize("late", range(0, 2400, 100))
def test_less_than_a_frame_of_silence_precedes_the_sound(late):
    sound = np.zeros(30 * STEP, np.float32)
    start = 12 * STEP + late
    sound[start : start + 5 * STEP] = 0.1 * np.sin(np.arange(5 * STEP) / 4)
    made = kokoro.KokoroOutput(sound, np.array([12, 2, 4, 6, 6]))
    cut, frames = kokoro.cut_silence(made, dmel.TIME_BASE)
    heard = first_audible_sample(cut, RATE_HZ, active_level_db(cut, RATE_HZ))
    assert heard is not None and 0 <= heard < STEP
    assert (frames.sum() * STEP == len(cut) + 300 and (frames[1:] >= 1).all()) or frames[-1] >= 0


def test_pauses_belong_to_marks_and_long_ones_to_spaces():
    names = ["<", "a", "b", " ", "c", ",", " ", "d", ">"]
    frames = np.array([1, 2, 6, 2, 5, 1, 1, 4, 2])
    sound = (0.1 * np.random.default_rng(0).standard_normal(frames.sum() * STEP - 300)).astype(np.float32)
    for start, stop in ((6, 9), (13, 16), (21, 22)):  # at the end of b, of c and of d
        sound[start * STEP - 300 : stop * STEP - 300] = 0
    assert list(kokoro.settle_pauses(names, frames, sound, dmel.TIME_BASE)) == [1, 2, 3, 5, 2, 4, 1, 3, 3]
    sound[6 * STEP - 300 : 7 * STEP - 300] = 0.1  # two silent frames are the closure of a p, t or k
    assert list(kokoro.settle_pauses(names, frames, sound, dmel.TIME_BASE)) == [1, 2, 6, 2, 2, 4, 1, 3, 3]


def test_letters_and_names_reach_the_dictionary_as_written():
    said = normalised_words("A TTS by Polish I.T. men in the USA: IBM's, OK? WAIT.")
    assert [w.word for w in said][:6] == ["a", "t", "t", "s", "by", "polish"]
    assert restore_case(
        "A TTS by Polish men? WAIT, I said.", normalised_words("A TTS by Polish men? WAIT, I said.")
    ) == ("A T T S by Polish men? wait, I said.")
    assert normalised_words("漢字") == []


def test_unsuitable_texts_are_left_out():
    net = FakeKokoro()
    assert kokoro.synthesise(net, "af_heart", "") is None
    assert kokoro.synthesise(net, "af_heart", "one two three four five six seven " * 30) is None
    assert not net.asked
    net.vocabulary = {}
    assert kokoro.synthesise(net, "af_heart", "Hello.") is None


def _tiny_onnx() -> bytes:
    """A graph with Kokoro's inputs: token numbers are the durations, the style's first value is the sound."""
    constants = [
        helper.make_tensor("least", TensorProto.FLOAT, [], [1.0]),
        helper.make_tensor("step", TensorProto.FLOAT, [], [float(STEP)]),
        helper.make_tensor("zero", TensorProto.INT64, [1], [0]),
        helper.make_tensor("one", TensorProto.INT64, [1], [1]),
        helper.make_tensor("flat", TensorProto.INT64, [1], [-1]),
    ]
    nodes = [
        helper.make_node("Cast", ["tokens"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Clip", ["numbers", "least"], [kokoro.DURATIONS]),
        helper.make_node("ReduceSum", [kokoro.DURATIONS], ["whole"], keepdims=0),
        helper.make_node("Mul", ["whole", "step"], ["long"]),
        helper.make_node("Cast", ["long"], ["samples"], to=TensorProto.INT64),
        helper.make_node("Reshape", ["samples", "flat"], ["shape"]),
        helper.make_node("Slice", ["style", "zero", "one", "one"], ["first"]),
        helper.make_node("Reshape", ["first", "flat"], ["value"]),
        helper.make_node("Mul", ["value", "speed"], ["scaled"]),
        helper.make_node("Expand", ["scaled", "shape"], ["audio"]),
    ]
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, None]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
    ]
    outputs = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, [None])]
    graph = helper.make_graph(nodes, "tiny", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def test_folder_of_weights(tmp_path, monkeypatch):
    """The graph's internal durations are returned; the style's row is the number of phonemes."""
    import hashlib

    weights = _tiny_onnx()
    (tmp_path / "kokoro.onnx").write_bytes(weights)
    (tmp_path / "vocab.json").write_text('{"a": 3, "b": 5}')
    (tmp_path / "voices").mkdir()
    styles = np.zeros((510, 1, 256), np.float32)
    styles[:, 0, 0] = np.arange(510)
    styles.tofile(tmp_path / "voices" / "af_heart.bin")
    with pytest.raises(BadFile, match="sha256"):
        kokoro.OnnxNet(tmp_path)
    monkeypatch.setattr(kokoro, "SHA256", hashlib.sha256(weights).hexdigest())
    net = kokoro.OnnxNet(tmp_path)
    made = net.make("af_heart", [0, 3, 5, 3, 0])
    assert list(made.frames) == [1, 3, 5, 3, 1] and len(made.sound) == 13 * STEP
    assert (made.sound == 2.0).all()  # row 2 of the styles: three phonemes
    with pytest.raises(BadOption, match="af_heart"):
        net.make("am_nobody", [0, 3, 0])
    np.savez(tmp_path / "voices.npz", am_nobody=styles + 1)
    (tmp_path / "voices.npz").rename(tmp_path / kokoro.VOICES)
    (tmp_path / "config.json").write_text('{"vocab": {"a": 7}}')
    assert (net.make("am_nobody", [0, 3, 0]).sound == 1.0).all()
    assert kokoro.OnnxNet(tmp_path).vocabulary == {"a": 7}
    assert onnx.load_from_string(weights).graph.output[0].name == "audio"


def test_teachers_by_name(monkeypatch):
    assert open_teacher("programs") is open_teacher("programs")
    assert teacher_of("slt").about("slt") and "Kokoro" in teacher_of("am_michael").about("am_michael")
    for name in ("nobody", "programs:folder"):
        with pytest.raises(BadOption):
            open_teacher(name)
    with pytest.raises(BadOption, match="af_heart"):
        teacher_of("nobody")
    monkeypatch.delenv(kokoro.FOLDER_VARIABLE, raising=False)
    with pytest.raises(BadFile, match=kokoro.FOLDER_VARIABLE):
        next(kokoro.Kokoro().speak("af_heart", ["Hello."]))
    with pytest.raises(BadOption, match="slt"):
        next(open_teacher("programs").speak("nobody", ["Hello."]))
