"""Options as people write them: what a voice cannot be told is refused with what it can be."""

import pytest

from studio.core.cards import OptionSpec
from studio.core.errors import BadOption
from studio.core.options import merge_options, options_from_flags, parse_options

SPECS = (
    OptionSpec("guidance", "float", 1.0, "Guidance", "how far to go", low=1.0, high=3.0),
    OptionSpec("other", "int", 0, "Other speaker", "who has the other turns", low=0, high=2),
    OptionSpec("mode", "choice", "whole", "Mode", choices=("whole", "ngram")),
    OptionSpec("far", "int", 0, "Far", low=1),
)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("other=1.5", "other cannot be '1.5'; give a whole number from 0 to 2$"),
        ("other=3", "other cannot be 3; give a whole number from 0 to 2$"),
        ("guidance=abc", "guidance cannot be 'abc'; give a number from 1 to 3$"),
        ("guidance=nan", "guidance cannot be nan; give a number from 1 to 3$"),
        ("far=x", "far cannot be 'x'; give a whole number from 1$"),
        ("mode=all", "mode cannot be 'all'; choose one of whole, ngram$"),
        ("other", "other has no value; write other=value, where the value is a whole number from 0 to 2$"),
        ("mode", "mode has no value; write mode=value, where the value is one of whole, ngram$"),
        ("k=1", "'k=1' sets no option of this voice; write name=value with one of guidance, other, mode, far$"),
    ],
)
def test_what_an_option_cannot_be_is_told_with_its_kind_and_range(written, told):
    with pytest.raises(BadOption, match=told):
        merge_options(SPECS, parse_options(SPECS, [written]), {})


def test_a_flag_is_named_as_it_was_typed():
    assert options_from_flags(SPECS, {"--window": ("m", None), "--other": ("other", 2)}) == ["other=2"]
    with pytest.raises(BadOption, match=r"this voice has no option for --window.*its options are far, guidance, mode"):
        options_from_flags(SPECS, {"--window": ("m", 3)})
    with pytest.raises(BadOption, match="it has no options"):
        options_from_flags((), {"--window": ("m", 3)})
