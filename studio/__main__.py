"""``python -m studio``."""

from studio.cli import main

main()
