"""The command line: arguments → call → print. Nothing heavy is imported before a command runs."""


def main() -> None:
    """Entry point."""
    raise SystemExit(2)
