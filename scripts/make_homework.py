"""Write lectures/homework/set*.py: the solved files of lab/homework/reference without the bodies of
their tasks.

    python scripts/make_homework.py            write them
    python scripts/make_homework.py --check    write nothing; exit 1 and name what differs
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.files import replacing
from lab.homework.tasks import SETS, starter

FOLDER = Path(__file__).parents[1] / "lectures" / "homework"


def differing(folder: Path) -> list[str]:
    """Files that are not what they would be written as: others, missing ones, too many."""
    wanted = {f"{file}.py": starter(file) for file in SETS}
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("set*.py")}
    return sorted(name for name in wanted | there if wanted.get(name) != there.get(name))


def write(folder: Path) -> None:
    for file in SETS:
        with replacing(folder / f"{file}.py") as path:
            path.write_text(starter(file), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="lectures/homework")
    args = parser.parse_args(argv)
    args.folder.mkdir(parents=True, exist_ok=True)
    if not args.check:
        write(args.folder)
    wrong = differing(args.folder)
    if wrong:
        print(f"differ from lab/homework/reference: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
