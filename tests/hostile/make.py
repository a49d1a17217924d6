"""Write all hostile files into a folder: `python -m tests.hostile.make FOLDER`."""

import sys
from pathlib import Path

from tests.hostile.files import write_files


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Say where: python -m tests.hostile.make FOLDER")
    written = write_files(Path(sys.argv[1]))
    size = sum(path.stat().st_size for path in written.values())
    sys.stdout.write(f"{len(written)} files, {size / 1e6:.0f} MB, in {sys.argv[1]}\n")


if __name__ == "__main__":
    main()
