"""Make ``kyutai_words.npz`` with Kyutai's state machine: what it feeds in the runs of ``kyutai_scripts.py``.

The environment is that of ``make_mimi.py``; the command is

    PYTHONPATH=FOLDER NO_TORCH_COMPILE=1 python tests/oracles/make_kyutai_words.py

Arrays: ``fed`` (the token of each step, of one run after the other, until four steps after its end), ``began`` (whether
a word began in it), ``end`` (the step of each run in which its text ended).
"""

import numpy as np
from kyutai_scripts import FILE, RUNS, SIZE, Script, script
from moshi.models.tts import Entry, StateMachine, TokenIds


def run(script: Script) -> tuple[list[int], list[bool], int]:
    machine = StateMachine(
        TokenIds(SIZE),
        second_stream_ahead=script.look_ahead,
        max_padding=script.longest_pad,
        initial_padding=script.initial_pad,
    )
    state = machine.new_state([Entry(list(tokens), str(tokens), padding) for tokens, padding in script.words])
    fed, began = list[int](), list[bool]()
    for step, wanted in enumerate(script.wanted):
        token, begins = machine.process(step, state, wanted)
        fed.append(token)
        began.append(begins)
        if state.end_step is not None and step == state.end_step + 4:
            return fed, began, state.end_step
    raise ValueError("the run is too short for its text")


def main() -> None:
    runs = [run(script(number)) for number in range(RUNS)]
    fed = np.array([token for one in runs for token in one[0]], np.uint16)
    began = np.array([begins for one in runs for begins in one[1]])
    np.savez_compressed(FILE, fed=fed, began=np.packbits(began), end=np.array([one[2] for one in runs], np.uint16))


if __name__ == "__main__":
    main()
