"""``studio campaign predict``: predicted MOS of a campaign's sounds."""

import typer

from studio.bench.options import Threads
from studio.commands.common import Data, Database, Name, opened
from studio.core.folders import DEFAULT_DATA

campaign_predict = typer.Typer()


@campaign_predict.command("predict")
def predict(name: Name, threads: Threads = 1, database: Database = "", data: Data = DEFAULT_DATA) -> None:
    """Predict the MOS of a campaign's sounds with DistillMOS; shown beside ratings, never used for ranking.

    Scores are stored by content, so a stopped run resumes.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    from studio.mos.analysis.predicted import predict_clips, unpredicted
    from studio.predict.distillmos import DistillMos

    with opened(database, data) as listening, DistillMos(threads) as predictor:
        with listening.store.read() as session:
            wanted = unpredicted(session, name, predictor.about["sha256"])
        columns = (*Progress.get_default_columns(), MofNCompleteColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task("predicting", total=len(wanted))
            predict_clips(listening.store, listening.clips, wanted, predictor, lambda: progress.advance(bar))
    by = f"{predictor.about['name']} {predictor.about['version']}"
    typer.echo(f"{name}: {len(wanted)} sounds predicted by {by}" if wanted else f"{name}: {by} has judged every sound")
