"""``studio bench``: speed, robustness, statistics of listening tests; ``studio eval``: how well a voice speaks."""

import inspect
from dataclasses import MISSING, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from studio.bench import durability, settings
from studio.bench.evaluation import settings as evaluation
from studio.bench.mos import settings as mos
from studio.bench.options import result_name
from studio.commands.common import Json, Save, show
from studio.core.errors import BadOption
from studio.core.terminal import print_line

bench = typer.Typer(no_args_is_help=True, help="Measure speed, load, robustness, and the listening tests.")
evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")


def add_measurement(app: typer.Typer, name: str, setting: type[Any], target: str) -> None:
    """Add the command ``name``, whose options are the annotated fields of a dataclass.

    Args:
        setting: its docstring is the command's help. Where present, ``result_name`` is the name in bench/results,
            ``is_partial`` forbids --save, and ``plots`` writes pictures of the saved figures.
        target: ``module:function`` under studio.bench, called with the parameters; its figures are shown. If their
            list ``failures`` is not empty, the exit status is 1.
    """
    hints = get_type_hints(setting, include_extras=True)
    options = [field for field in fields(setting) if get_origin(hints[field.name]) is Annotated]

    def command(**values: Any) -> None:
        as_json, save = values.pop("as_json"), values.pop("save")
        options = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        parameters = setting(**{key: value for key, value in options.items() if value is not None}, quiet=as_json)
        if save and getattr(parameters, "is_partial", False):
            raise BadOption("a partial run or a run with a planted fault is not a result", "leave out --save")
        module, _, function = target.partition(":")
        figures = getattr(import_module(f"studio.bench.{module}"), function)(parameters)
        show(result_name(parameters, name), figures, as_json, save)
        for path in parameters.plots(figures) if save and hasattr(parameters, "plots") else ():
            print_line(f"written to {path}", err=True)
        if figures.get("failures"):
            raise typer.Exit(1)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(
            field.name,
            keyword,
            default=inspect.Parameter.empty if field.default is MISSING else _shown_default(field.default),
            annotation=_listed(hints[field.name]),
        )
        for field in options
    ]
    parameters += [
        inspect.Parameter(key, keyword, default=False, annotation=kind)
        for key, kind in (("as_json", Json), ("save", Save))
    ]
    command.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    command.__doc__ = inspect.cleandoc(setting.__doc__ or "").partition("\n\nAttributes:")[0]
    app.command(name)(command)


def _shown_default(value: Any) -> Any:
    return None if isinstance(value, tuple) else value


def _listed(hint: Any) -> Any:
    """The annotation in typer's form: a variable-length tuple becomes an optional list."""
    kind, *extras = get_args(hint)
    if get_origin(kind) is tuple and get_args(kind)[-1] is Ellipsis:
        item = get_args(kind)[0]
        return Annotated[list[item] | None, *extras]  # pyright: ignore[reportInvalidTypeForm]
    return hint


for _name, _setting, _target in (
    ("latency", settings.LatencySetting, "speed.latency:bench_latency"),
    ("cascade", settings.CascadeSetting, "speed.cascade:bench_cascade"),
    ("step", settings.StepSetting, "speed.step:bench_step"),
    ("codec", settings.CodecSetting, "speed.codec:bench_codec"),
    ("kyutai", settings.KyutaiSetting, "speed.kyutai:bench_kyutai"),
    ("gpu", settings.GpuSetting, "speed.gpu:bench_gpu"),
    ("host", settings.HostSetting, "speed.host:bench_host"),
    ("load", settings.LoadSetting, "speed.load:bench_load"),
    ("wire", settings.WireSetting, "speed.throughput:bench_wire"),
    ("adapters", settings.AdaptersSetting, "speed.adapters:bench_adapters"),
    ("replicas", settings.ReplicasSetting, "speed.replicas:bench_replicas"),
    ("measure", settings.MeasuringSetting, "speed.throughput:bench_measure"),
    ("page", settings.PageSetting, "page.key_to_ear:bench_page"),
    ("type", settings.TypeSetting, "speed.terminal:bench_type"),
    ("inspect", settings.InspectSetting, "page.inspect:bench_inspect"),
    ("highlight", settings.HighlightSetting, "page.live:bench_highlight"),
    ("start", settings.StartSetting, "page.live:bench_start"),
    ("mos-load", mos.MosLoadSetting, "mos.load:bench_mos_load"),
    ("mos-kill", durability.MosKillSetting, "durability:run_harness"),
    ("annotation-kill", durability.AnnotationKillSetting, "durability:run_harness"),
    ("mos-coverage", mos.CoverageSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-ordinal", mos.OrdinalSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-unequal", mos.UnequalSetting, "mos.coverage:bench_mos_coverage"),
    ("mos-family", mos.FamilySetting, "mos.family:bench_mos_family"),
    ("mos-looks", mos.LooksSetting, "mos.design:bench_mos_looks"),
    ("mos-plan", mos.PlanSetting, "mos.design:bench_mos_plan"),
    ("mos-margin", mos.MarginSetting, "mos.margins:bench_mos_margin"),
    ("fuzz", durability.FuzzSetting, "durability:run_harness"),
    ("flood", durability.FloodSetting, "durability:run_harness"),
    ("soak", durability.SoakSetting, "durability:run_harness"),
    ("replay", durability.ReplaySetting, "durability:run_harness"),
):
    add_measurement(bench, _name, _setting, _target)
for _name, _setting, _target in (
    ("words", evaluation.WordsSetting, "evaluation.words:eval_words"),
    ("wer", evaluation.WerSetting, "evaluation.wer:eval_wer"),
    ("long", evaluation.LongSetting, "evaluation.wer:eval_long"),
    ("short", evaluation.ShortSetting, "evaluation.wer:eval_short"),
    ("hour", evaluation.HourSetting, "evaluation.hour:eval_hour"),
    ("heard", evaluation.HeardSetting, "page.live:eval_heard"),
    ("boundaries", evaluation.BoundarySetting, "evaluation.boundaries:eval_boundaries"),
    ("word-times", evaluation.WordTimesSetting, "evaluation.word_times:eval_word_times"),
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

    print_line(summarise())


@bench.command()
def card_figures() -> None:
    """Write first sound, predicted MOS and word errors of the shipped voices into their cards, from bench/results."""
    from studio.bench.card_figures import write_card_figures

    for path in write_card_figures():
        print_line(path)


@bench.command()
def screenshot(
    out: Annotated[Path, typer.Argument(help="PNG file to write; .webp and .gif: an animation.")],
    width: Annotated[int, typer.Option(help="Width of the window, pixels.")] = 1280,
    height: Annotated[int, typer.Option(help="Height of the window, pixels.")] = 860,
    dark: Annotated[bool, typer.Option("--dark", help="Use the dark theme.")] = False,
    inspect: Annotated[bool, typer.Option("--inspect", help="The Inspect page of what was spoken.")] = False,
    race: Annotated[bool, typer.Option("--race", help="A race, as an animation of six seconds.")] = False,
) -> None:
    """Take a screenshot of the Live page while it speaks."""
    from studio.bench.page.pictures import ANIMATIONS
    from studio.bench.page.pictures import screenshot as take

    if race and out.suffix not in ANIMATIONS:
        raise BadOption("a race is an animation", f"give a file that ends in {' or '.join(ANIMATIONS)}")
    take(out, width=width, height=height, dark=dark, inspect=inspect, race=race)
