"""`fastreplay` and `python -m fastreplay`: becomes the program, which then has its terminal, signals and exit code."""

import os
import sys
from typing import NoReturn

from fastreplay import program


def main() -> NoReturn:
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
