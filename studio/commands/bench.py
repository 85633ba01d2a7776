"""``studio bench``: speed, robustness, statistics of listening tests; ``studio eval``: how well a voice speaks."""

from pathlib import Path
from typing import Annotated

import typer

from studio.bench import durability, settings
from studio.bench.evaluation import settings as evaluation
from studio.bench.mos import settings as mos
from studio.commands.measurements import add_measurement

bench = typer.Typer(no_args_is_help=True, help="Measure speed, load, robustness, and the listening tests.")
evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")


for _name, _setting, _target in (
    ("latency", settings.LatencySetting, "speed.latency:bench_latency"),
    ("cascade", settings.CascadeSetting, "speed.cascade:bench_cascade"),
    ("step", settings.StepSetting, "speed.step:bench_step"),
    ("load", settings.LoadSetting, "speed.load:bench_load"),
    ("wire", settings.WireSetting, "speed.wire:bench_wire"),
    ("measure", settings.MeasuringSetting, "speed.measuring:bench_measure"),
    ("page", settings.PageSetting, "page.key_to_ear:bench_page"),
    ("inspect", settings.InspectSetting, "page.inspect:bench_inspect"),
    ("highlight", settings.HighlightSetting, "page.highlight:bench_highlight"),
    ("start", settings.StartSetting, "page.start:bench_start"),
    ("mos-load", mos.MosLoadSetting, "mos.load:bench_mos_load"),
    ("mos-kill", durability.MosKillSetting, "durability:run_harness"),
    ("annotation-kill", durability.AnnotationKillSetting, "durability:run_harness"),
    ("mos-coverage", mos.CoverageSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-ordinal", mos.OrdinalSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-looks", mos.LooksSetting, "mos.looks:bench_mos_looks"),
    ("mos-plan", mos.PlanSetting, "mos.plan:bench_mos_plan"),
    ("fuzz", durability.FuzzSetting, "durability:run_harness"),
    ("soak", durability.SoakSetting, "durability:run_harness"),
    ("replay", durability.ReplaySetting, "durability:run_harness"),
):
    add_measurement(bench, _name, _setting, _target)
for _name, _setting, _target in (
    ("wer", evaluation.WerSetting, "evaluation.wer:eval_wer"),
    ("long", evaluation.LongSetting, "evaluation.wer:eval_long"),
    ("short", evaluation.ShortSetting, "evaluation.wer:eval_short"),
    ("hour", evaluation.HourSetting, "evaluation.hour:eval_hour"),
    ("heard", evaluation.HeardSetting, "evaluation.heard:eval_heard"),
    ("boundaries", evaluation.BoundarySetting, "evaluation.boundaries:eval_boundaries"),
    ("seams", evaluation.SeamSetting, "evaluation.seams:eval_seams"),
    ("interleaving", evaluation.InterleavingSetting, "evaluation.interleaving:eval_interleaving"),
    ("quality", evaluation.QualitySetting, "evaluation.quality:eval_quality"),
    ("families", evaluation.FamiliesSetting, "evaluation.families:eval_families"),
    ("prompts", evaluation.PromptSetting, "evaluation.prompts:eval_prompts"),
    ("vocoder", evaluation.VocoderSetting, "evaluation.vocoder:eval_vocoder"),
):
    add_measurement(evaluate, _name, _setting, _target)


@bench.command()
def summary() -> None:
    """Write docs/results, README.md and a page for each paper, from the newest files of bench/results."""
    from studio.bench.summary import summarise

    typer.echo(summarise())


@bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write; .webp and .gif: an animation.")],
    width: Annotated[int, typer.Option(help="Width of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Height of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="Use the dark theme.")] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="The Inspect page of what was spoken.")] = False,
) -> None:
    """Take a screenshot of the Live page while it speaks."""
    from studio.bench.page.key_to_ear import screenshot as take

    take(out, width=width, height=height, dark=dark, inspect=inspect)
