"""``studio bench``: how fast it speaks, and how much the server bears."""

import typer

from studio.commands.bench.listening import listening_bench
from studio.commands.bench.page import page_bench
from studio.commands.bench.robustness import robustness_bench
from studio.commands.bench.speed import speed_bench

bench = typer.Typer(
    no_args_is_help=True, help="Measure how fast it speaks, how much it bears, and the listening tests."
)
bench.add_typer(speed_bench)
bench.add_typer(page_bench)
bench.add_typer(listening_bench)
bench.add_typer(robustness_bench)


@bench.command()
def summary() -> None:
    """Write docs/results, README.md and a page for each paper, from the newest files of bench/results."""
    from studio.bench.summary import summarise

    typer.echo(summarise())
