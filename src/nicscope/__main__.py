"""``python -m nicscope`` and the ``nicscope`` command."""

from nicscope.cli.app import main

if __name__ == "__main__":
    raise SystemExit(main())
