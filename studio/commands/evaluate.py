"""``studio eval``: how well a voice speaks."""

import typer

from studio.bench.evaluation import settings
from studio.commands.measurements import add_measurement

evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")
for _name, _setting, _target in (
    ("wer", settings.WerSetting, "evaluation.wer:eval_wer"),
    ("long", settings.LongSetting, "evaluation.long:eval_long"),
    ("short", settings.ShortSetting, "evaluation.short:eval_short"),
    ("hour", settings.HourSetting, "evaluation.hour:eval_hour"),
    ("heard", settings.HeardSetting, "evaluation.heard:eval_heard"),
    ("boundaries", settings.BoundarySetting, "evaluation.boundaries:eval_boundaries"),
    ("seams", settings.SeamSetting, "evaluation.seams:eval_seams"),
    ("interleaving", settings.InterleavingSetting, "evaluation.interleaving:eval_interleaving"),
    ("quality", settings.QualitySetting, "evaluation.quality:eval_quality"),
    ("families", settings.FamiliesSetting, "evaluation.families:eval_families"),
    ("prompts", settings.PromptSetting, "evaluation.prompts:eval_prompts"),
    ("vocoder", settings.VocoderSetting, "evaluation.vocoder:eval_vocoder"),
):
    add_measurement(evaluate, _name, _setting, _target)
