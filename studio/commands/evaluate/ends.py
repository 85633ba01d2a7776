"""``studio eval`` boundaries, seams and interleaving: where words and segments end, and how text and speech lie."""

from pathlib import Path
from typing import Annotated

import typer

from studio.commands.common import Cache, Count, Device, Json, Save, Settings, Texts, VoiceName, Voices, show
from studio.core.errors import BadOption
from studio.core.shipped import TEXTS, VOICES

end_commands = typer.Typer()


@end_commands.command()
def boundaries(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 50,
    forced: Annotated[
        bool, typer.Option("--forced", help="Only p_eos on the teacher's own speech: nothing is spoken or aligned.")
    ] = False,
    m: Annotated[int, typer.Option("--window", "-m", min=1, max=6, help="Words seen per segment.")] = 5,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether segments speak their own words, and where p_eos stands against word ends."""
    from studio.bench.evaluation.boundaries import BoundarySetting, eval_boundaries

    setting = BoundarySetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        m=m,
        only_forced=forced,
    )
    show("forced-boundaries" if forced else "boundaries", eval_boundaries(setting), as_json, save)


@end_commands.command()
def seams(
    texts: Texts = TEXTS / "eval.txt",
    count: Count = 200,
    hops: Annotated[list[int] | None, typer.Option("--n", min=2, help="Words a segment; 2 and 3 unless given.")] = None,
    setting: Settings = None,
    voice: VoiceName = "",
    voices: Voices = VOICES,
    device: Device = "auto",
    cache: Cache = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """Whether a detector can tell seams from other word boundaries of the same speech."""
    from studio.bench.evaluation.seams import SeamSetting, eval_seams

    asked = SeamSetting(
        voices=voices,
        voice=voice,
        device=device,
        cache=cache,
        quiet=as_json,
        texts=texts,
        count=count,
        settings=tuple(setting or ()),
        hops=tuple(hops or (2, 3)),
    )
    show("seams", eval_seams(asked), as_json, save)


@end_commands.command()
def interleaving(
    features: Annotated[Path, typer.Option(help="Folder of encoded shards, whose word ends are known.")],
    encoding: Annotated[Path, typer.Option("--bpe", help="The byte-pair encoding, bpe.json of a voice.")],
    figure: Annotated[Path | None, typer.Option("-o", help="Draw the heat maps of figure 4 into this .html.")] = None,
    as_json: Json = False,
    save: Save = False,
) -> None:
    """How far text and speech lie apart at every ratio of IST-LM (figure 4 of paper 003)."""
    from studio.bench.evaluation.interleaving import eval_interleaving, heat_maps

    if figure is not None and (figure.suffix != ".html" or not figure.parent.is_dir()):
        raise BadOption(f"-o {figure} is no place for the heat maps", "name an .html file in a folder that is there")
    found = eval_interleaving(features, encoding, quiet=as_json)
    if figure is not None:
        heat_maps(found).write_html(figure)
        typer.echo(f"heat maps in {figure}", err=True)
    show("interleaving", found, as_json, save)
