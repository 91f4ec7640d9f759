"""``python -m afgrl`` is the command ``afgrl``."""

from afgrl.cli import main

main()
