"""A folder of sounds as a system."""

from systems.speaking import TEXT, failure, sound_file, spoken

from studio.core.events import Ended


def test_a_folder_speaks_the_texts_that_it_has(tmp_path):
    sound_file(tmp_path / "one.wav", 1.0)
    (tmp_path / "one.txt").write_text(TEXT.upper() + "\n", encoding="utf-8")
    system = {"kind": "folder", "folder": str(tmp_path)}
    trace = spoken(system)
    assert isinstance(trace.events[-1], Ended) and len(trace.pcm) == 24_000
    assert len(trace.segments()) == 1 and len(trace.words()) == 7
    assert "no sound speaks 'Good evening.'" in failure(system, "Good evening.")
