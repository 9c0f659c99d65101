"""``python -m affinerank``: the command line."""

from affinerank.cli import run

if __name__ == "__main__":
    run()
