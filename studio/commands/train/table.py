"""``studio train table``: the papers' tables, made by small nets."""

import json
from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import Count, Device, Json, Recogniser, Save, Texts, show
from studio.core.shipped import TEXTS

table_commands = typer.Typer()


@table_commands.command()
def table(
    name: Annotated[str, typer.Argument(help="The paper, such as 000; without it those that there are.")] = "",
    features: Annotated[Path, typer.Option(help="Folder of encoded shards.")] = Path("work/features"),
    vocoders: Annotated[Path, typer.Option(help="Folder of <name>.safetensors and <name>.json.")] = Path(
        "work/vocoders"
    ),
    work: Annotated[Path, typer.Option(help="Folder for nets, voices and rows; a stopped run goes on.")] = Path(
        "work/tables"
    ),
    bpe: Annotated[Path | None, typer.Option(help="The byte-pair encoding, where a family needs one.")] = None,
    teacher_texts: Annotated[
        Path | None,
        typer.Option(help="Texts for the teacher of a distillation, one a line; without them it is left out."),
    ] = None,
    steps: Annotated[int, typer.Option(min=0, help="Of every net; the recipes' own unless given.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="Trainings of every net.")] = 1,
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    only: Annotated[str, typer.Option(help="Only rows whose names hold this.")] = "",
    without: Annotated[str, typer.Option(help="Leave out rows whose names hold this.")] = "",
    rate_share: Annotated[
        float,
        typer.Option(min=0.001, max=1, help="Of the queries a second that rows name, where the machine is slower."),
    ] = 1.0,
    teacher: Annotated[bool, typer.Option("--teacher/--no-teacher", help="Measure the teacher too.")] = True,
    recogniser: Recogniser = "whisper",
    device: Device = "auto",
    threads: Annotated[int | None, typer.Option(min=1, max=256, help="Of arithmetic on a CPU.")] = None,
    is_plan: Annotated[bool, typer.Option("--plan", help="Say what would be trained and measured, and stop.")] = False,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Make a paper's tables: fit every net, measure every row, print the paper's figures beside ours."""
    from studio.bench.tables.definition import read_table, table_names
    from studio.bench.tables.nets import Workshop
    from studio.bench.tables.run import TableSetting, make_table, plan
    from studio.bench.tables.show import show_plan
    from studio.core.errors import BadOption

    if not name and is_plan:
        raise BadOption("a plan is of one paper", f"name it: {', '.join(table_names())}")
    if not name:
        for one in table_names():
            typer.echo(f"{one}  {read_table(one).title}")
        return
    shop = Workshop(
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
        found = plan(setting)
        typer.echo(json.dumps(found, indent=1)) if as_json else show_plan(found)
        return
    show(f"table-{name}", make_table(setting), as_json, save)
