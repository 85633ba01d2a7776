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
        target: ``module:function:show`` under studio.bench; the function is called with the parameters, and ``show``
            prints its figures unless JSON is asked for. If their list ``failures`` is not empty, the exit status is 1.
    """
    hints = get_type_hints(setting, include_extras=True)
    options = [field for field in fields(setting) if get_origin(hints[field.name]) is Annotated]

    def command(**values: Any) -> None:
        as_json, save = values.pop("as_json"), values.pop("save")
        options = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        parameters = setting(**{key: value for key, value in options.items() if value is not None}, quiet=as_json)
        if save and getattr(parameters, "is_partial", False):
            raise BadOption("a partial run or a run with a planted fault is not a result", "leave out --save")
        module, *names = target.split(":")
        measure, show_figures = (getattr(import_module(f"studio.bench.{module}"), one) for one in names)
        figures = measure(parameters)
        if not as_json:
            show_figures(figures)
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
    ("latency", settings.LatencySetting, "speed.latency:bench_latency:show"),
    ("cascade", settings.CascadeSetting, "speed.cascade:bench_cascade:show"),
    ("step", settings.StepSetting, "speed.step:bench_step:show"),
    ("codec", settings.CodecSetting, "speed.codec:bench_codec:show"),
    ("kyutai", settings.KyutaiSetting, "speed.kyutai:bench_kyutai:show"),
    ("gpu", settings.GpuSetting, "speed.gpu:bench_gpu:show"),
    ("host", settings.HostSetting, "speed.host:bench_host:show"),
    ("load", settings.LoadSetting, "speed.load:bench_load:show_all"),
    ("wire", settings.WireSetting, "speed.throughput:bench_wire:show_wire"),
    ("adapters", settings.AdaptersSetting, "speed.adapters:bench_adapters:show_adapters"),
    ("replicas", settings.ReplicasSetting, "speed.replicas:bench_replicas:show"),
    ("measure", settings.MeasuringSetting, "speed.throughput:bench_measure:show_measure"),
    ("page", settings.PageSetting, "page.key_to_ear:bench_page:show"),
    ("type", settings.TypeSetting, "speed.terminal:bench_type:show"),
    ("inspect", settings.InspectSetting, "page.inspect:bench_inspect:show"),
    ("highlight", settings.HighlightSetting, "page.live:bench_highlight:show_highlight"),
    ("start", settings.StartSetting, "page.live:bench_start:show_start"),
    ("mos-load", mos.MosLoadSetting, "mos.load:bench_mos_load:show"),
    ("mos-kill", durability.MosKillSetting, "durability:run_harness:show_mos_kill"),
    ("annotation-kill", durability.AnnotationKillSetting, "durability:run_harness:show_annotation_kill"),
    ("mos-coverage", mos.CoverageSetting, "mos.coverage:bench_mos_coverage:show"),
    ("mos-ordinal", mos.OrdinalSetting, "mos.coverage:bench_mos_coverage:show"),
    ("mos-unequal", mos.UnequalSetting, "mos.coverage:bench_mos_coverage:show"),
    ("mos-family", mos.FamilySetting, "mos.margins:bench_mos_family:show_family"),
    ("mos-looks", mos.LooksSetting, "mos.design:bench_mos_looks:show_looks"),
    ("mos-plan", mos.PlanSetting, "mos.design:bench_mos_plan:show_plan"),
    ("mos-margin", mos.MarginSetting, "mos.margins:bench_mos_margin:show_margins"),
    ("fuzz", durability.FuzzSetting, "durability:run_harness:show_fuzz"),
    ("flood", durability.FloodSetting, "durability:run_harness:show_flood"),
    ("soak", durability.SoakSetting, "durability:run_harness:show_soak"),
    ("replay", durability.ReplaySetting, "durability:run_harness:show_replay"),
):
    add_measurement(bench, _name, _setting, _target)
for _name, _setting, _target in (
    ("words", evaluation.WordsSetting, "evaluation.words:eval_words:show"),
    ("wer", evaluation.WerSetting, "evaluation.wer:eval_wer:show"),
    ("long", evaluation.LongSetting, "evaluation.wer:eval_long:show_long"),
    ("short", evaluation.ShortSetting, "evaluation.wer:eval_short:show_short"),
    ("hour", evaluation.HourSetting, "evaluation.hour:eval_hour:show"),
    ("heard", evaluation.HeardSetting, "page.live:eval_heard:show_heard"),
    ("boundaries", evaluation.BoundarySetting, "evaluation.boundaries:eval_boundaries:show"),
    ("word-times", evaluation.WordTimesSetting, "evaluation.word_times:eval_word_times:show"),
    ("seams", evaluation.SeamSetting, "evaluation.seams:eval_seams:show"),
    ("interleaving", evaluation.InterleavingSetting, "evaluation.interleaving:eval_interleaving:show"),
    ("quality", evaluation.QualitySetting, "evaluation.quality:eval_quality:show"),
    ("families", evaluation.FamiliesSetting, "evaluation.families:eval_families:show"),
    ("prompts", evaluation.PromptSetting, "evaluation.prompts:eval_prompts:show"),
    ("vocoder", evaluation.VocoderSetting, "evaluation.vocoder:eval_vocoder:show"),
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
