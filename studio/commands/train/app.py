"""``studio train``: make a voice."""

import typer

from studio.commands.train.corpus import corpus_commands
from studio.commands.train.nets import net_commands
from studio.commands.train.table import table_commands

train = typer.Typer(no_args_is_help=True, help="Make a voice: speak a corpus, encode it, fit, pack.")
train.add_typer(corpus_commands)
train.add_typer(net_commands)
train.add_typer(table_commands)
