"""``python -m afgrl`` runs the command ``afgrl``."""

from afgrl.cli.entry_point import main

main()
