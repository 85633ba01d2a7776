"""``studio train``: make a voice; ``table``: the papers' tables with small nets."""

import json
from pathlib import Path
from typing import Annotated

import typer

from studio.bench.options import Count, Device, Recogniser, Texts
from studio.commands.common import Json, Save, show
from studio.commands.train.corpus import corpus_commands
from studio.commands.train.nets import net_commands
from studio.core.folders import TEXTS

train = typer.Typer(no_args_is_help=True, help="Make a voice: speak a corpus, encode it, fit, pack.")
train.add_typer(corpus_commands)
train.add_typer(net_commands)


@train.command()
def table(
    name: Annotated[str, typer.Argument(help="The paper, such as 000; default: list them.")] = "",
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")] = Path("work/features"),
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")] = Path(
        "work/vocoders"
    ),
    work: Annotated[Path, typer.Option(help="Folder for nets, voices and rows; a stopped run resumes.")] = Path(
        "work/tables"
    ),
    bpe: Annotated[Path | None, typer.Option(help="The byte-pair encoding, for families that need one.")] = None,
    teacher_texts: Annotated[
        Path | None, typer.Option(help="Texts for the teacher of a distillation, one per line; default: skip it.")
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps of every net; default: the recipes'.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="Trainings of every net.")] = 1,
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    only: Annotated[str, typer.Option(help="Only rows whose names contain this.")] = "",
    without: Annotated[str, typer.Option(help="Skip rows whose names contain this.")] = "",
    rate_share: Annotated[
        float, typer.Option(min=0.001, max=1, help="Share of the rows' queries per second, for slower machines.")
    ] = 1.0,
    teacher: Annotated[bool, typer.Option("--teacher/--no-teacher", help="Measure the teacher too.")] = True,
    recogniser: Recogniser = "whisper",
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="CPU threads.")] = None,
    is_plan: Annotated[bool, typer.Option("--plan", help="Show what would be trained and measured, and stop.")] = False,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Reproduce a paper's tables: train every net, measure every row, print the paper's figures beside ours."""
    from studio.bench.tables.definition import read_table, table_names
    from studio.bench.tables.figures import show_plan
    from studio.bench.tables.nets import TableWorkspace
    from studio.bench.tables.run import TableSetting, make_table, plan
    from studio.core.errors import BadOption

    if not name and is_plan:
        raise BadOption("a plan is of one paper", f"name it: {', '.join(table_names())}")
    if not name:
        for one in table_names():
            typer.echo(f"{one}  {read_table(one).title}")
        return
    shop = TableWorkspace(
        work=work,
        features=features,
        vocoders=vocoders,
        bpe=bpe,
        teacher_texts=teacher_texts,
        steps=steps,
        device=device,
        threads=threads,
    )
    setting = TableSetting(
        name=name,
        shop=shop,
        texts=texts,
        count=count,
        seeds=seeds,
        recogniser=recogniser,
        is_taught=teacher,
        only=only,
        without=without,
        rate_share=rate_share,
        quiet=as_json,
    )
    if is_plan:
        planned = plan(setting)
        typer.echo(json.dumps(planned, indent=1)) if as_json else show_plan(planned)
        return
    show(f"table-{name}", make_table(setting), as_json, save)
