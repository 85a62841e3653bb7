#!/usr/bin/env python3
"""clang_warnings.py COMPILE_COMMANDS: reads every source with clang 14, all warnings as errors.

Nothing is compiled: -fsyntax-only with the flags of the g++ build, less those that clang lacks and
the precompiled headers: each file must include what it uses.
Exit 1 if a file has a warning, 4 if there is nothing to read.
"""
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys

UNKNOWN_TO_CLANG = re.compile(r"^-(fvect-cost-model=.*|Wno-maybe-uninitialized)$")


def command_of(entry):
    words = shlex.split(entry["command"])
    while not re.search(r"(c\+\+|g\+\+)[-0-9.]*$", words[0]):
        words.pop(0)  # a launcher such as ccache
    result = ["clang++-14", "-fsyntax-only", "-Werror", "-Wno-unknown-warning-option"]
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-include"):
            skip = True
        elif word not in ("-c", "-MD") and not UNKNOWN_TO_CLANG.match(word):
            result.append(word)
    return result


def read(entry):
    done = subprocess.run(command_of(entry), cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode, done.stderr


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = json.load(file)
    entries = [entry for entry in entries if "/ptx/embedded" not in entry["file"] and "/cmake_pch." not in entry["file"]]
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, status, text in pool.map(read, entries):
            if status:
                bad += 1
                print(f"{file}:\n{text[:2000]}")
    print(f"clang_warnings: {len(entries)} files, {bad} with warnings")
    return 4 if not entries else 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
