"""``studio eval``: how well a voice speaks."""

import typer

from studio.commands.evaluate.ends import end_commands
from studio.commands.evaluate.sound import sound_commands
from studio.commands.evaluate.words import word_commands

evaluate = typer.Typer(no_args_is_help=True, help="Measure how well a voice speaks.")
evaluate.add_typer(word_commands)
evaluate.add_typer(end_commands)
evaluate.add_typer(sound_commands)
