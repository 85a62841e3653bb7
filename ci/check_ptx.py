#!/usr/bin/env python3
"""check_ptx.py FOLDER: refuses PTX of our kernels whose float arithmetic leaves the rounding open.

`mul`, `add` or `sub` on floats without .rn (or another rounding) may be fused by ptxas into one
multiply-add: the same text would then give other bits on a device. Also refused: local memory
(.local), which our kernels never mean to use. Exit 1 if one is found, 4 if there is nothing to check.
"""
import pathlib
import re
import sys

OPEN = re.compile(r"^\s*(@\S+\s+)?(mul|add|sub)\.(?:ftz\.|sat\.)*(f16|f16x2|bf16|bf16x2|f32|f64)\b")


def main():
    files = sorted(pathlib.Path(sys.argv[1]).glob("**/*.ptx"))
    problems = 0
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if OPEN.match(line):
                print(f"{path.name}:{number}: rounding left open: {line.strip()}")
                problems += 1
            if re.match(r"^\s*\.local\b", line):
                print(f"{path.name}:{number}: local memory: {line.strip()}")
                problems += 1
    print(f"check_ptx: {len(files)} files, {problems} problems")
    if not files:
        return 4
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
