#!/usr/bin/env python3
"""relink.py: a program with a few files changed, without a second build.

    ci/relink.py --build BUILD --changed FOLDER --output PROGRAM

FOLDER holds the changed files at their paths from the project's root, and nothing else. Every object
of the target `lockstep` that was compiled from one of them, or includes one, is compiled again with
the flags of BUILD and FOLDER in front of the project's root; kernels become PTX and are embedded
again. The new objects are linked in front of BUILD's libraries, so that their definitions replace
those. BUILD must be up to date.

Exit status: 0; 1 it does not compile or link; 4 BUILD is no such build.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile


class Build:
    """The commands of a Ninja build, and how they run with changed files."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        home = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$",
                         (self.folder / "CMakeCache.txt").read_text(encoding="utf-8"), re.MULTILINE)
        self.root = home.group(1)
        self.commands = {}  # target -> its command lines, what it needs first

    def ninja(self, *words):
        done = subprocess.run(["ninja", "-C", str(self.folder), "-t", *words], capture_output=True,
                              text=True)
        return done.stdout.splitlines() if done.returncode == 0 else []

    def commands_of(self, target):
        if target not in self.commands:
            self.commands[target] = [line for line in self.ninja("commands", target)
                                     if not line.startswith("ninja: ")]
        return self.commands[target]

    def objects_of(self, target):
        """Object -> its compiler's words."""
        found = {}
        for line in self.commands_of(target):
            words = shlex.split(line)
            if "-c" in words and words[words.index("-o") + 1].endswith(".o"):
                while not re.search(r"(c|g|clang)\+\+[-0-9.]*$", words[0]):
                    words.pop(0)  # a launcher
                found[words[words.index("-o") + 1]] = words
        return found

    def ptx_of(self, target):
        """PTX file -> nvcc's words; and the words that embed all of them."""
        found, embed = {}, None
        for line in self.commands_of(target):
            for part in line.split(" && "):
                if " -ptx " in part:
                    words = shlex.split(part)
                    found[words[words.index("-o") + 1]] = words
                elif "embed.cmake" in part:
                    embed = shlex.split(part)
        return found, embed

    def files_of_objects(self):
        """Object or precompiled header -> the files that it was compiled from."""
        found, current = {}, None
        for line in self.ninja("deps"):
            if line.startswith(" "):
                current.add(line.strip())
            elif line:
                current = found.setdefault(line.split(": #deps")[0], set())
        return found

    def with_changes(self, words, changed):
        """The words of a compiler that prefers the files of the folder `changed`. No precompiled
        header: it may hold an unchanged one. No list of dependencies."""
        result, skip = [f"-fmacro-prefix-map={changed}/="] if "-c" in words else [], False
        result.insert(0, words[0])
        for word in without_clang_pch(words[1:]):
            if skip:
                skip = False
            elif word in ("-include", "-MF", "-MT"):
                skip = True
            elif word in ("-MD", "-Winvalid-pch"):
                pass
            elif word == self.root:  # behind -I
                result += [str(changed), "-I", self.root]
            elif word == "-I" + self.root:
                result += [f"-I{changed}", word]
            elif word.startswith(self.root + "/") and (changed / word[len(self.root) + 1:]).exists():
                result.append(str(changed / word[len(self.root) + 1:]))
            else:
                result.append(word)
        return result

    def link_words(self, target):
        """Of the command that links the target, or none."""
        for line in reversed(self.commands_of(target)):
            for part in line.split(" && "):
                words = shlex.split(part)
                if "-o" in words and words[words.index("-o") + 1] == target:
                    return words
        return None

    def link_in_front(self, target, objects, program):
        words = self.link_words(target)
        words[words.index("-o") + 1] = str(program)
        for index, word in enumerate(words):
            if index > 0 and not word.startswith(("-", "/")) and word != str(program):
                words[index] = str(self.folder / word)
        if shutil.which("ld.lld"):
            words.insert(1, "-fuse-ld=lld")  # the same program, sooner
        return words[:1] + [str(name) for name in objects] + words[1:]


def without_clang_pch(words):
    """Less `-Xclang -include-pch -Xclang FILE` and `-Xclang -include -Xclang FILE`."""
    result, at = [], 0
    while at < len(words):
        if words[at] == "-Xclang" and words[at + 1] in ("-include-pch", "-include"):
            at += 4
        else:
            result.append(words[at])
            at += 1
    return result


def with_output(words, output):
    result = list(words)
    result[result.index("-o") + 1] = str(output)
    return result


def run(words, folder):
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"relink: {shlex.join(words)}\n{done.stdout}{done.stderr}")


def new_ptx(build, changed, replaced_files, work):
    """The embedded PTX with the changed kernels, as a C++ source; none if no kernel has changed."""
    commands, embed = build.ptx_of("lockstep")
    jobs, replaced = [], {}
    for output, words in commands.items():
        made_of = re.split(r"[\s\\]+", pathlib.Path(output + ".d").read_text(encoding="utf-8"))
        if replaced_files.isdisjoint(made_of):
            continue
        replaced[output] = str(work / pathlib.Path(output).name)
        jobs.append(with_output(build.with_changes(words, changed), replaced[output]))
    if not jobs:
        return None
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda words: run(words, build.folder), jobs))
    for file in map(pathlib.Path, replaced.values()):
        text = file.read_text(encoding="utf-8")  # line numbers name files as without the change
        file.write_text(text.replace(f"{changed}/", f"{build.root}/"), encoding="utf-8")
    embedded = work / "embedded_ptx.cpp"
    for index, word in enumerate(embed):
        if word.startswith("-DOUTPUT="):
            embed[index] = f"-DOUTPUT={embedded}"
        elif word.startswith("-DPTX="):
            files = word[len("-DPTX="):].split(";")
            embed[index] = "-DPTX=" + ";".join(replaced.get(file, file) for file in files)
    run(embed, build.folder)
    return embedded


def relink(build, changed, program):
    files = [file.relative_to(changed) for file in changed.rglob("*") if file.is_file()]
    replaced_files = {f"{build.root}/{file}" for file in files}
    made_of = build.files_of_objects()

    def is_changed(output, words):
        files = set(made_of.get(output, ()))
        for word in words:  # what is precompiled is no longer among the object's own
            if word.endswith("/cmake_pch.hxx"):
                header = os.path.relpath(word, build.folder)
                files |= made_of.get(header + ".gch", set()) | made_of.get(header + ".pch", set())
        return bool(replaced_files & files)

    with tempfile.TemporaryDirectory(prefix="relink-") as name:
        work = pathlib.Path(name)
        embedded = new_ptx(build, changed, replaced_files, work)
        jobs, objects = [], []
        for output, words in build.objects_of("lockstep").items():
            is_embedded = output.endswith("ptx/embedded_ptx.cpp.o")
            if not (embedded if is_embedded else is_changed(output, words)):
                continue
            objects.append(work / f"{len(objects)}.o")
            words = with_output(build.with_changes(words, changed), objects[-1])
            if is_embedded:
                words[words.index("-c") + 1] = str(embedded)
            jobs.append(words)
        if not jobs:
            sys.exit(f"relink: nothing is compiled from {', '.join(map(str, files)) or 'no file'}")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(lambda words: run(words, build.folder), jobs))
        run(build.link_in_front("lockstep", objects, program), build.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--changed", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if not (options.build / "build.ninja").exists():
        print(f"relink: {options.build} is no Ninja build", file=sys.stderr)
        return 4
    relink(Build(options.build), options.changed.resolve(), options.output.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
