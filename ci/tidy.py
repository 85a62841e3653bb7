#!/usr/bin/env python3
"""tidy.py [ROOT]: the rules of docs/architecture.md that a machine can check. Exit 1 if one is broken.

Arrows between folders (includes), headers of what is used, sizes of lines, functions and files, the
closed list of base/, no arithmetic library in model/ and trace/, names that must not appear.
Exceptions stand in EXCEPTIONS below; that list may only shrink.
"""
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)

# folder -> folders that it may include (its own and base always).
ARROWS = {
    "base": [],
    "model": [],
    "trace": ["model"],
    "device": [],
    "kernels": ["device", "model", "trace"],
    "engine": ["kernels", "device", "model", "trace"],
    "reference": ["model", "trace"],
    "oracles": ["model", "trace"],
    "harness": ["model", "trace", "device", "kernels", "engine", "reference", "oracles"],
    "property_tests": ["*"],
    "fuzz": ["*"],
    "golden": ["*"],
    "bench": ["*"],
}
NOBODY_INCLUDES = {"harness", "property_tests", "fuzz", "golden", "bench"}
# Inside engine/: sub-room -> sub-rooms it may include. engine/engine.* may include all.
ENGINE_ARROWS = {
    "cache": [],
    "schedule": ["cache"],
    "models": ["schedule", "execute/tap.h"],
    "execute": ["schedule", "models", "sample"],
}
BASE_HEADERS = {"check", "error", "checked", "limits", "hash", "prng"}
MAX_LINE, MAX_FUNCTION, MAX_DEVICE_FUNCTION, MAX_FILE = 100, 70, 150, 600

# file -> rules it may break, with the reason in a comment. Only ever shorter.
EXCEPTIONS = {
    # One opcode of PTX alone is that long.
    "device/vgpu/ptx/parser_test.cpp": {"line"},
    # A case for each special register.
    "device/vgpu/exec/worker.cpp": {"function"},
}
# Paths and names that must not be in the project (in pieces, so that this file passes).
FORBIDDEN = [r"/wo" + r"rk/", r"py" + r"pi\.org", r"deb\.deb" + r"ian\.org", r"/ro" + r"ot/"]

# What is used -> the header it needs, which a precompiled one would hide: the file or a header of
# the project that it includes must have it.
ALGORITHMS = "sort|find_if|all_of|any_of|none_of|min|max|fill|copy|transform|lower_bound|count_if|clamp"
NEEDED_HEADERS = [(re.compile(use), header) for use, header in [
    (r"std::array<", "array"), (r"std::filesystem\b", "filesystem"), (r"std::function<", "functional"),
    (r"std::map<", "map"), (r"std::set<", "set"), (r"std::span\b", "span"),
    (r"std::string\b", "string"), (r"std::string_view\b", "string_view"),
    (r"std::unordered_map<", "unordered_map"), (r"std::vector<", "vector"),
    (r"std::(optional<|nullopt)", "optional"), (r"std::u?int(8|16|32|64)_t", "cstdint"),
    (r"std::(variant<|visit\b|get_if<)", "variant"),
    (r"std::(unique_ptr|shared_ptr|make_unique|make_shared)\b", "memory"),
    (rf"std::(ranges::)?({ALGORITHMS})\(", "algorithm"),
    (r"nlohmann::", "nlohmann/json.hpp"), (r"fmt::format\(", "fmt/format.h")]]

problems = []


def problem(path, line, rule):
    problems.append(f"{path}:{line}: {rule}")


def tracked_files():
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"],
        capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def check_include(path, number, target):
    room = path.split("/")[0]
    other = target.split("/")[0]
    if room not in ARROWS:
        return
    if other not in ARROWS:
        if "/" in target:
            return  # a library's header in quotes
        problem(path, number, f'include "{target}": from the root of the project')
        return
    if other == "base":
        stem = pathlib.PurePosixPath(target).stem
        if stem not in BASE_HEADERS:
            problem(path, number, f"base/ is a closed list of headers: {sorted(BASE_HEADERS)}")
        return
    if other == room:
        if room == "engine":
            check_engine_include(path, number, target)
        return
    allowed = ARROWS[room]
    if other in NOBODY_INCLUDES and "*" not in allowed:
        problem(path, number, f"nothing includes {other}/")
    elif "*" not in allowed and other not in allowed:
        problem(path, number, f"{room}/ may not include {other}/ (arrows of docs/architecture.md)")


def check_engine_include(path, number, target):
    parts, other = path.split("/"), target.split("/")
    if len(parts) < 3 or len(other) < 3 or parts[1] == other[1]:
        return
    allowed = ENGINE_ARROWS.get(parts[1], [])
    if other[1] not in allowed and "/".join(other[1:]) not in allowed:
        problem(path, number, f"engine/{parts[1]} may not include engine/{other[1]}")


@functools.cache
def all_includes(path):
    """Of a file and the project's headers that it includes, and those that they do."""
    if not (ROOT / path).is_file():
        return frozenset()
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    direct = re.findall(r'^#include [<"]([^>"]+)[>"]', text, re.MULTILINE)
    return frozenset(direct).union(*map(all_includes, direct))


def check_needed_headers(path, lines):
    have = all_includes(path)
    for number, line in enumerate(lines, 1):
        code = line.split("//")[0]
        for use, header in NEEDED_HEADERS:
            declared = path.endswith(".h") and header == "nlohmann/json.hpp" and (
                "nlohmann/json_fwd.hpp" in have)
            if header not in have and not declared and use.search(code):
                problem(path, number, f"uses <{header}>, which nothing of the project includes here")


FUNCTION_START = re.compile(r"^(?!namespace|struct|class|enum|union|extern|using|typedef|#|\}|//)"
                            r"[A-Za-z_].*\)[^;=]*\{\s*$")


def check_functions(path, lines):
    """Functions by layout: clang-format puts a definition's braces at the scope's indentation."""
    limit = MAX_DEVICE_FUNCTION if path.endswith((".cu", ".cuh")) else MAX_FUNCTION
    start = None
    indent = ""
    for number, line in enumerate(lines, 1):
        stripped = line.lstrip(" ")
        if start is None:
            depth = len(line) - len(stripped)
            if depth <= 2 and FUNCTION_START.match(stripped) and "= {" not in line:
                start, indent = number, line[:depth]
        elif line.startswith(indent + "}"):
            if number - start > limit:
                problem(path, start, f"function of {number - start} lines, limit {limit}")
            start = None


def check_source(path):
    text = (ROOT / path).read_text(encoding="utf-8", errors="replace")
    lines = text.splitlines()
    excused = EXCEPTIONS.get(path, set())
    if len(lines) > MAX_FILE and "file" not in excused:
        problem(path, len(lines), f"file of {len(lines)} lines, limit {MAX_FILE}")
    if not lines or not lines[0].startswith("//"):
        header = path.rsplit(".", 1)[0] + ".h"
        if not (ROOT / header).exists() and not path.endswith("_test.cpp"):
            problem(path, 1, "a file opens with a comment that says what it is for")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_LINE and "line" not in excused:
            problem(path, number, f"line of {len(line)} columns, limit {MAX_LINE}")
        match = re.match(r'\s*#include "([^"]+)"', line)
        if match:
            check_include(path, number, match.group(1))
        if path.startswith(("model/", "trace/")) and not path.endswith("_test.cpp"):
            if re.match(r"\s*#include <(numeric|complex|valarray|.*intrin\.h)>", line) or re.search(
                    r"\b(std::(fma|exp|tanh|cos|sin)f?|dequant\w*)\s*\(", line):
                problem(path, number, "no arithmetic on tensor values in model/ and trace/")
        if path.startswith("reference/") and re.match(r"\s*#include <.*intrin.h>", line):
            problem(path, number, "no intrinsics in reference/")
    if "function" not in excused:
        check_functions(path, lines)
    if path.endswith((".h", ".cpp")):
        check_needed_headers(path, lines)


def check_everything_else(path):
    data = (ROOT / path).read_bytes()
    if b"\0" in data[:4096] or path.startswith("golden/"):
        return
    text = data.decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in FORBIDDEN:
            if re.search(pattern, line):
                problem(path, number, f"must not appear in the project: {pattern}")


def main():
    files = tracked_files()
    for path in files:
        if path.endswith((".h", ".cpp", ".cu", ".cuh", ".inc")):
            check_source(path)
        check_everything_else(path)
    for path in EXCEPTIONS:
        if path not in files:
            problem("ci/tidy.py", 1, f"exception for {path}, which does not exist")
    for text in problems:
        print(text)
    print(f"tidy: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
