#!/usr/bin/env python3
"""mutate.py: small faults in the serving core's own C++, one at a time; who finds them?

    ci/mutate.py --list                      the mutants; nothing is built
    ci/mutate.py --seed 1 --sample 120       120 of them, judged
    ci/mutate.py --file engine/cache/kv_cache.cpp
    ci/mutate.py --survivors-of FILE         again, those that survived before

A mutant is one token (or one statement) of one file changed. It is compiled alone, with the flags
of the build (ci/relink.py), and linked in front of the libraries that are built already, so that its
definitions replace theirs. Two judges, one after the other:

  campaign   `lockstep campaign --seed S --cases N --json`: the laws, on generated scenarios
  tests      the unit tests of the mutant's folder; asked only where the campaign found nothing

Killed: a finding, a failed check, a crash, or no end within five times the usual processor time.
Mutants that do not compile are counted apart. So are those of ci/mutants_equivalent.txt, whose
behaviour is the same; each has its reason there.

Needs an up-to-date build (--build, default build/): the targets `lockstep` and `<folder>_test`.
Exit status: 0; 1 with --at-least P where the campaign kills fewer than P percent; 2 bad usage;
4 nothing to judge with (no build, or the campaign finds something without a mutant).
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import relink

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "ci" / "mutants_equivalent.txt"
FILES = [
    "engine/schedule/planner.cpp",
    "engine/cache/block_key.cpp",
    "engine/cache/block_pool.cpp",
    "engine/cache/kv_cache.cpp",
    "engine/cache/kv_cache_prefix.cpp",
    "engine/cache/kv_cache_reserve.cpp",
    "engine/deliver/accept.cpp",
    "engine/deliver/router.cpp",
    "engine/deliver/text_stream.cpp",
]
MEMORY_BYTES_MAX = 3 << 30  # of a mutant: it may allocate without end
FIRST_CASES = 512  # of the campaign, before all of them
PATIENCE = 5  # times the usual processor time: it does not end
LITERAL_MAX = 0xFFFF  # a larger number is a constant of hashing or "none", not a count

# --- Tokens ---------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*|/\*.*?\*/|^[ ]*\#(?:[^\n\\]|\\.)*$)
      | (?P<text>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>\d(?:[\w.']|[eEpP][+-])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<sign><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||<=|>=|==|!=|[-+*/%&|^]=|<<|.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE)

Token = collections.namedtuple("Token", "kind text begin end")


def tokens_of(source):
    found = []
    for match in TOKEN.finditer(source):
        if match.lastgroup != "blank" and not match.group("blank"):
            kind = match.lastgroup if match.lastgroup != "mark" else "text"
            found.append(Token(kind, match.group(), match.start(), match.end()))
    return found


def partners_of(tokens):
    """Index of a bracket -> its partner's; and index -> the opening brackets around it."""
    partner, around, stack = {}, [], []
    for index, token in enumerate(tokens):
        if token.text in (")", "]", "}") and token.kind == "sign":
            partner[index] = stack.pop()
            partner[partner[index]] = index
        around.append(tuple(stack))
        if token.text in ("(", "[", "{") and token.kind == "sign":
            stack.append(index)
    return partner, around


# --- Mutants --------------------------------------------------------------------------------------

Mutant = collections.namedtuple("Mutant", "path function operator begin end text line was now")

FLIPS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
         "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++"}
ENDS = {"begin": "end", "end": "begin", "rbegin": "rend", "rend": "rbegin", "front": "back",
        "back": "front", "lower_bound": "upper_bound", "upper_bound": "lower_bound"}
# A statement that begins with one of these is neither a call nor an assignment.
NO_STATEMENT = set("""return if for while do switch case default break continue else const constexpr
    static auto using typedef template namespace class struct enum union public private protected
    static_assert LS_CHECK LS_ASSIGN LS_TRY throw try goto""".split())
DECLARATION = re.compile(r"^[\w:]+(<.*>)?\s*[&*]*\s+[&*]*\w+\s*([={(\[].*)?;$", re.DOTALL)


class Source:
    """One file and its mutants, in order of place."""

    def __init__(self, path):
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.tokens = tokens_of(self.text)
        self.partner, self.around = partners_of(self.tokens)
        self.skipped = self.checks()
        self.functions = self.named_bodies()
        self.found = []

    def checks(self):
        """Tokens of LS_CHECK and static_assert: a fault there is no fault of behaviour."""
        skipped = set()
        for index, token in enumerate(self.tokens):
            if token.text in ("LS_CHECK", "static_assert"):
                skipped.update(range(index, self.partner[index + 1] + 2))
        return skipped

    def named_bodies(self):
        """(end, name) of each function, in order of place."""
        found = []
        for index, token in enumerate(self.tokens):
            if token.text != "{" or not self.in_function(index + 1):
                continue
            if any(self.in_function(brace + 1) for brace in self.around[index]
                   if self.tokens[brace].text == "{"):
                continue
            at = index
            while at > 0 and self.tokens[at - 1].text not in (";", "{", "}"):
                at = self.partner[at - 1] if self.tokens[at - 1].text == ")" else at - 1
            while at < index and self.tokens[at].text != "(":
                at += 1
            found.append((self.tokens[self.partner[index]].end, self.tokens[at - 1].text))
        return found

    def function_at(self, place):
        return next((name for end, name in self.functions if place < end), "")

    def spaced(self, index):
        """As clang-format sets binary operators; template brackets and signs have no such space."""
        token = self.tokens[index]
        return self.text[token.begin - 1].isspace() and self.text[token.end].isspace()

    def add(self, operator, begin, end, text):
        first = self.text.rfind("\n", 0, begin) + 1
        last = self.text.find("\n", end)
        was = " ".join(self.text[first:last].split())
        now = " ".join((self.text[first:begin] + text + self.text[end:last]).split())
        line = self.text.count("\n", 0, begin) + 1
        function = self.function_at(begin)
        self.found.append(Mutant(self.path, function, operator, begin, end, text, line, was, now))

    def replace(self, operator, index, text):
        self.add(operator, self.tokens[index].begin, self.tokens[index].end, text)

    def mutants(self):
        for index, token in enumerate(self.tokens):
            if index in self.skipped:
                continue
            if token.kind == "sign":
                self.at_sign(index, token.text)
            elif token.kind == "number":
                self.at_number(index, token.text)
            elif token.kind == "word":
                self.at_word(index, token.text)
            if self.begins_statement(index):
                self.at_statement(index)
        self.found.sort(key=lambda mutant: (mutant.begin, mutant.end, mutant.text))
        return self.found

    def at_sign(self, index, text):
        if text in FLIPS and self.spaced(index):
            for flipped in FLIPS[text]:
                self.replace("relational", index, flipped)
        elif text in ARITHMETIC and (self.spaced(index) or text in ("++", "--")):
            self.replace("arithmetic", index, ARITHMETIC[text])
        elif text in ("&&", "||") and self.spaced(index):
            self.replace("logic", index, "||" if text == "&&" else "&&")
        elif text == "?":
            # Binds tighter than && and ||: the last part of the condition is negated.
            if not self.one_comparison(self.ternary_begin(index), index):
                self.add("condition", self.tokens[index - 1].end, self.tokens[index - 1].end,
                         " == false")

    def at_number(self, index, text):
        match = re.fullmatch(r"(0[xX][0-9a-fA-F]+|\d+)([uUlLzZ]*)", text.replace("'", ""))
        if not match or int(match.group(1), 0) > LITERAL_MAX:
            return
        value = int(match.group(1), 0)
        for other in (value + 1, value - 1):
            if other >= 0:
                self.replace("literal", index, f"{other}{match.group(2)}")

    def at_word(self, index, text):
        before = [token.text for token in self.tokens[max(0, index - 2):index]]
        after = self.tokens[index + 1].text if index + 1 < len(self.tokens) else ""
        if text in ("true", "false"):
            self.replace("boolean", index, "false" if text == "true" else "true")
        elif text in ("min", "max") and before in (["std", "::"], ["ranges", "::"]):
            self.replace("minmax", index, "max" if text == "min" else "min")
        elif text in ENDS and before[-1:] in (["."], ["->"], ["::"]) and after == "(":
            self.replace("ends", index, ENDS[text])
        elif text in ("if", "while") and after == "(":
            self.at_condition(index + 1)
        elif text in ("continue", "break", "return"):
            self.at_jump(index, text)

    def ternary_begin(self, index):
        """Where the condition of the `?` at `index` begins, as far as that can be seen."""
        at = index - 1
        while self.tokens[at].text not in ("(", "{", ",", ";", "return", "=", "+=", "[", ":", "?"):
            at = self.partner[at] - 1 if at in self.partner else at - 1
        return at + 1

    def one_comparison(self, begin, end):
        """One comparison and nothing else: its flips negate it already."""
        depth0, at = [], begin
        while at < end:
            depth0.append(self.tokens[at].text)
            at = self.partner[at] + 1 if at in self.partner and self.partner[at] > at else at + 1
        signs = [text for text in depth0 if text in FLIPS or text in ("&&", "||")]
        return len(signs) == 1 and signs[0] in FLIPS and "=" not in depth0

    def at_condition(self, opening):
        closing = self.partner[opening]
        begin = opening + 1
        for at in range(begin, closing):
            if self.tokens[at].text == ";":
                begin = at + 1  # behind an initialiser
        depth0 = [self.tokens[at].text for at in range(begin, closing)]
        if "=" in depth0 or self.one_comparison(begin, closing):
            return
        first, last = self.tokens[begin].begin, self.tokens[closing].begin
        self.add("condition", first, last, f"!({self.text[first:last]})")

    def loop_around(self, index):
        """Whether a for or while with braces, or a switch, is around within the function."""
        loops = switches = False
        for brace in self.around[index]:
            if self.tokens[brace].text == "{" and self.tokens[brace - 1].text == ")":
                word = self.tokens[self.partner[brace - 1] - 1].text
                loops |= word in ("for", "while")
                switches |= word == "switch"
            elif self.tokens[brace - 1].text == "]":
                loops = switches = False  # a lambda
        return loops, switches

    def at_jump(self, index, text):
        loops, switches = self.loop_around(index)
        end = index
        while self.tokens[end].text != ";":
            end = self.partner[end] + 1 if end in self.partner else end + 1
        begin, end = self.tokens[index].begin, self.tokens[end].begin
        if text == "continue":
            others = ("break",)
        elif text == "break":
            others = ("continue",) if loops else ()
        else:
            others = (("continue",) if loops else ()) + (("break",) if loops or switches else ())
        for other in others:
            self.add("jump", begin, end, other)
        if text == "return" and end - begin == len("return"):
            self.add("jump", begin, end, "")

    def begins_statement(self, index):
        token = self.tokens[index]
        if not self.in_function(index) or token.text in NO_STATEMENT:
            return False
        if token.kind != "word" and token.text not in ("++", "--", "*", "("):
            return False
        before = self.tokens[index - 1].text
        if before == ")":
            return self.tokens[self.partner[index - 1] - 1].text in ("if", "for", "while")
        return before in (";", "{", "}", "else") or before == ":" and self.ends_label(index - 1)

    def ends_label(self, index):
        while self.tokens[index - 1].text not in (";", "{", "}"):
            index -= 1
        return self.tokens[index].text in ("case", "default")

    def in_function(self, index):
        """Directly between the braces of a function or of a statement in one."""
        if not self.around[index] or self.tokens[self.around[index][-1]].text != "{":
            return False
        at = self.around[index][-1] - 1
        while at >= 0 and self.tokens[at].text not in (";", "{", "}"):
            if self.tokens[at].text in ("namespace", "struct", "class", "enum", "union"):
                return False
            at = self.partner[at] - 1 if self.tokens[at].text == ")" else at - 1
        return True

    def at_statement(self, index):
        end = index
        while self.tokens[end].text != ";":
            if self.tokens[end].text in (")", "]", "}", ",", "?", ":"):
                return  # part of something else
            end = self.partner[end] + 1 if end in self.partner else end + 1
        text = self.text[self.tokens[index].begin:self.tokens[end].end]
        if not DECLARATION.match(text):
            self.add("statement", self.tokens[index].begin, self.tokens[end].begin, "")


def all_mutants(paths):
    return [mutant for path in paths for mutant in Source(path).mutants()]


def identity_of(mutant):
    """What a mutant is called while lines move; `mutant` may be a line of a record."""
    row = mutant if isinstance(mutant, dict) else mutant._asdict()
    return tuple(row[name] for name in ("path", "function", "operator", "was", "now"))


def name_of(mutant):
    return (f"{mutant.path}:{mutant.line}: {mutant.function}: {mutant.operator}: {mutant.was}  =>  "
            f"{mutant.now}")


def shuffled(mutants, seed):
    """By a hash of the mutant: what a run out of time leaves out is no part of the code, and of a
    changed file most of a sample stays."""
    seen, ranked = collections.Counter(), []
    for index, mutant in enumerate(mutants):
        identity = identity_of(mutant)
        word = f"{seed}:{identity}:{seen[identity]}"
        seen[identity] += 1
        ranked.append((hashlib.sha256(word.encode()).hexdigest(), index))
    return [mutants[index] for _, index in sorted(ranked)]


def read_equivalent():
    """Paragraphs of `PATH: FUNCTION: OPERATOR`, `was: LINE`, `now: LINE`, `reason: TEXT`."""
    reasons = {}
    if not EQUIVALENT.exists():
        return reasons
    text = "\n".join(line for line in EQUIVALENT.read_text(encoding="utf-8").splitlines()
                     if not line.startswith("#"))
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", text)):
        match = re.fullmatch(r"\s*(\S+): (\S+): (\w+)\n\s*was: ([^\n]*)\n\s*now:([^\n]*)\n"
                             r"\s*reason: (.+)", paragraph, re.DOTALL)
        if not match:
            sys.exit(f"mutate: {EQUIVALENT.name}: not a paragraph of four parts:\n{paragraph}")
        key = match.group(1, 2, 3) + (match.group(4).strip(), match.group(5).strip())
        reasons[key] = " ".join(match.group(6).split())
    return reasons


# --- Judging --------------------------------------------------------------------------------------


class Run:
    """One command, bounded in processor time, memory and wall time."""

    groups = set()  # process groups that live

    def __init__(self, words, folder, cpu_s, wall_s, environment=None, memory=None):
        def bound():
            os.setpgid(0, 0)
            if cpu_s:
                resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
            if memory:
                resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        self.timed_out = False
        with open(folder / "stdout", "w+", encoding="utf-8", errors="replace") as out, \
                open(folder / "stderr", "w+", encoding="utf-8", errors="replace") as err:
            child = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=err, preexec_fn=bound, env=environment)
            Run.groups.add(child.pid)
            try:
                self.status = child.wait(timeout=wall_s)
            except subprocess.TimeoutExpired:
                self.timed_out, self.status = True, None
            Run.end(child.pid)  # and what it left behind
            child.wait()
            Run.groups.discard(child.pid)
            out.seek(0)
            err.seek(0)
            self.out, self.err = out.read(), err.read()
        if self.status == -signal.SIGXCPU or "signal 24" in self.err or "no end in" in self.err:
            self.timed_out = True

    @staticmethod
    def end(group):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass

    @staticmethod
    def end_all(number, _):
        for group in list(Run.groups):
            Run.end(group)
        os._exit(128 + number)


class Builder:
    """How to compile one file and to link a program with it in front of the libraries."""

    def __init__(self, folder):
        if not (folder / "build.ninja").exists():
            fail(4, f"no build to mutate: {folder}")
        self.build = relink.Build(folder)
        self.objects = self.build.objects_of("lockstep")
        self.environment = dict(os.environ, CCACHE_DISABLE="1")

    def compile(self, path, source, target, folder):
        words = next(words for words in self.objects.values() if str(ROOT / path) in words)
        words = self.build.with_changes(words, folder)
        words[words.index(str(ROOT / path))] = str(source)
        words = relink.with_output(words, target)
        return Run(words, folder, 300, 1200, self.environment).status == 0

    def links(self, target):
        return self.build.link_words(target) is not None

    def link(self, target, mutated_object, program, folder):
        words = self.build.link_in_front(target, [mutated_object], program)
        done = Run(words, folder, 300, 1200, self.environment)
        if done.status != 0:
            fail(4, f"does not link: {done.err[:2000]}")


class Judge:
    def __init__(self, options):
        self.options = options
        self.builder = Builder(options.build)
        self.usual = {}  # program -> processor seconds without a mutant

    def campaign_words(self, program, cases):
        return [str(program), "campaign", "--seed", str(self.options.campaign_seed), "--cases",
                str(cases), "--jobs", "1", "--minimize", "0", "--json", "--report", "report"]

    def test_target(self, path):
        target = os.path.dirname(path).replace("/", "_") + "_test"
        return target if self.builder.links(target) else None

    def test_words(self, program):
        return [str(program), "--gtest_brief=1", "--gtest_filter=-Slow*"]

    def measure(self, targets):
        """The judges without a mutant: they must have nothing to say."""
        with tempfile.TemporaryDirectory(prefix="mutate-") as name:
            for target in targets:
                program = self.options.build / target
                words = (self.campaign_words(program, self.options.cases)
                         if target == "lockstep" else self.test_words(program))
                if not program.exists():
                    fail(4, f"{program} is not built")
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                done = Run(words, pathlib.Path(name), None, 1200)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                self.usual[target] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                if done.status != 0:
                    fail(4, f"{target} has something to say without a mutant:\n"
                            f"{(done.err + done.out)[-2000:]}")

    def bounds(self, target, part=1.0):
        """Seconds of processor time, and of wall time on a machine that has more to do."""
        cpu = int(PATIENCE * part * self.usual[target]) + 3
        return cpu, 100 * cpu

    def judge(self, mutant):
        """What became of the mutant: a dict for the record."""
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="mutate-") as name:
            result = self.judge_in(pathlib.Path(name), mutant)
        result.update(mutant._asdict(), seconds=round(time.monotonic() - started, 1))
        return result

    def judge_in(self, folder, mutant):
        text = (ROOT / mutant.path).read_text(encoding="utf-8")
        text = text[:mutant.begin] + mutant.text + text[mutant.end:]
        # Messages name the file as they do without a mutant.
        source, obj, program = folder / "mutant.cpp", folder / "mutant.o", folder / "program"
        source.write_text(f'#line 1 "{mutant.path}"\n{text}', encoding="utf-8")
        if not self.builder.compile(mutant.path, source, obj, folder):
            return {"outcome": "not compiled", "by": []}
        self.builder.link("lockstep", obj, program, folder)
        by = self.campaign(program, folder)
        if by:
            return {"outcome": "campaign", "by": by}
        target = self.test_target(mutant.path)
        if target and not self.options.no_tests:
            self.builder.link(target, obj, program, folder)
            cpu, wall = self.bounds(target)
            done = Run(self.test_words(program), folder, cpu, wall, None, MEMORY_BYTES_MAX)
            if done.status != 0:
                failed = sorted(set(re.findall(r"\[  FAILED  \] (\w+\.\w+)", done.out)))
                return {"outcome": "tests", "by": failed[:5] or ["crash"]}
        return {"outcome": "survived", "by": []}

    def campaign(self, program, folder):
        """Laws with a finding: of a few cases, where that is enough; else of all."""
        return (self.campaign_of(min(FIRST_CASES, self.options.cases), program, folder) or
                self.campaign_of(self.options.cases, program, folder))

    def campaign_of(self, cases, program, folder):
        """Laws with a finding; `check`, `crash`, `memory` or `no end` where it broke off."""
        cpu, wall = self.bounds("lockstep", cases / self.options.cases)
        done = Run(self.campaign_words(program, cases), folder, cpu, wall, None, MEMORY_BYTES_MAX)
        if done.status == 0:
            return []
        by = []
        try:
            by = [law["law"] for law in json.loads(done.out)["laws"] if law["cases"]["finding"] > 0]
        except (ValueError, KeyError):
            pass  # it did not come to an answer
        if done.timed_out:
            by.append("no end")
        elif "bad_alloc" in done.err:
            by.append("memory")
        elif done.status != 1:
            by.append("crash" if "signal" in done.err or done.status < 0 else "check")
        elif not by:
            by.append("check")
        return by


def fail(status, text):
    print(f"mutate: {text}", file=sys.stderr)
    sys.stderr.flush()
    os._exit(status)


# --- Report ---------------------------------------------------------------------------------------


def percent(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.1f} %)" if whole else "0 of 0"


def report(results, equivalent):
    kinds = collections.Counter(result["outcome"] for result in results)
    judged = [result for result in results if result["outcome"] != "not compiled"]
    print(f"mutants judged: {len(results)}; not compiled {kinds['not compiled']}; "
          f"equivalent, left out: {equivalent}")
    print(f"killed by the campaign: {percent(kinds['campaign'], len(judged))}")
    print(f"killed by unit tests besides: {kinds['tests']}; in all: "
          f"{percent(kinds['campaign'] + kinds['tests'], len(judged))}")
    for title, key in (("file", "path"), ("operator", "operator")):
        print(f"\nby {title}: campaign, tests besides, survived")
        for name in sorted({result[key] for result in judged}):
            row = collections.Counter(r["outcome"] for r in judged if r[key] == name)
            print(f"  {name:36} {row['campaign']:4} {row['tests']:4} {row['survived']:4}")
    alone, any_of = collections.Counter(), collections.Counter()
    for result in judged:
        if result["outcome"] == "campaign":
            any_of.update(result["by"])
            alone.update(result["by"] if len(result["by"]) == 1 else [])
    print(f"\nby law (of the first {FIRST_CASES} cases, where one objects there): "
          "kills, kills that are its alone")
    for law, count in any_of.most_common():
        print(f"  {law:36} {count:4} {alone[law]:4}")
    for outcome, title in (("tests", "found by unit tests only"), ("survived", "survivors")):
        print(f"\n{title}:")
        for result in results:
            if result["outcome"] == outcome:
                print(f"  {result['path']}:{result['line']}: {result['function']}: "
                      f"{result['operator']}\n"
                      f"    was: {result['was']}\n    now: {result['now']}")
    return 100 * kinds["campaign"] / len(judged) if judged else 0.0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    parser.add_argument("--file", action="append", help="only this file (may be repeated)")
    parser.add_argument("--line", type=int, help="only mutants of this line")
    parser.add_argument("--seed", type=int, default=1, help="of the order in which they are judged")
    parser.add_argument("--sample", type=int, help="the first so many in that order")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit-seconds", type=float, help="begin no mutant after so long")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--cases", type=int, default=4096, help="of the campaign")
    parser.add_argument("--campaign-seed", type=int, default=1)
    parser.add_argument("--no-tests", action="store_true", help="the campaign alone judges")
    parser.add_argument("--record", type=pathlib.Path, help="a JSON line a mutant, as it is judged;\nthose that are in it already are not judged again")
    parser.add_argument("--survivors-of", type=pathlib.Path,
                        help="only mutants that a record says the campaign did not kill")
    parser.add_argument("--report-of", type=pathlib.Path, action="append",
                        help="print the report of a record; judge nothing (may be repeated)")
    parser.add_argument("--at-least", type=float, default=0, help="percent; else exit status 1")
    options = parser.parse_args()
    options.build = options.build.resolve()
    return options


def read_record(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def chosen(options):
    """The mutants to judge, and how many were left out as equivalent."""
    paths = [os.path.relpath(path, ROOT) if os.path.isabs(path) else path
             for path in options.file or FILES]
    for path in paths:
        if not (ROOT / path).is_file():
            fail(2, f"no such file: {path}")
    mutants = all_mutants(paths)
    if options.line:
        mutants = [mutant for mutant in mutants if mutant.line == options.line]
    if options.survivors_of:
        wanted = {identity_of(result) for result in read_record(options.survivors_of)
                  if result["outcome"] in ("survived", "tests")}
        mutants = [mutant for mutant in mutants if identity_of(mutant) in wanted]
    mutants = shuffled(mutants, options.seed)[:options.sample]
    reasons = read_equivalent()
    if not (options.file or options.line or options.survivors_of or options.sample):
        known = {identity_of(mutant) for mutant in mutants}
        for key in reasons:
            if key not in known:
                print(f"mutate: {EQUIVALENT.name}: no such mutant any more: {key}", file=sys.stderr)
    kept = [mutant for mutant in mutants if identity_of(mutant) not in reasons]
    return kept, len(mutants) - len(kept)


def place_of(result):
    return (FILES.index(result["path"]) if result["path"] in FILES else len(FILES), result["path"],
            result["begin"], result["end"], result["text"])


def judge_all(options, mutants):
    judge = Judge(options)
    targets = {"lockstep"}
    if not options.no_tests:
        targets |= {judge.test_target(mutant.path) for mutant in mutants} - {None}
    judge.measure(sorted(targets))
    print("usual processor time: " +
          ", ".join(f"{target} {seconds:.1f} s" for target, seconds in judge.usual.items()), flush=True)
    results, started = [], time.monotonic()
    record = open(options.record, "a", encoding="utf-8") if options.record else None

    def one(mutant):
        if options.limit_seconds and time.monotonic() - started > options.limit_seconds:
            return None
        return judge.judge(mutant)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, m) for m in mutants]):
            result = future.result()
            if result is None:
                continue
            results.append(result)
            if record:
                print(json.dumps(result), file=record, flush=True)
            print(f"[{len(results)}/{len(mutants)}] {result['outcome']:12} {result['path']}:"
                  f"{result['line']}: {result['operator']} {','.join(result['by'])} "
                  f"{result['seconds']} s", file=sys.stderr, flush=True)
    if len(results) < len(mutants):
        print(f"out of time: {len(mutants) - len(results)} mutants not judged")
    return results


def main():
    signal.signal(signal.SIGTERM, Run.end_all)
    signal.signal(signal.SIGINT, Run.end_all)
    options = arguments()
    if options.report_of:
        latest = {}
        for path in options.report_of:
            for result in read_record(path):
                latest[(identity_of(result), result["line"])] = result
        report(sorted(latest.values(), key=place_of), 0)
        return 0
    mutants, equivalent = chosen(options)
    if options.list:
        for mutant in sorted(mutants, key=lambda m: place_of(m._asdict())):
            print(name_of(mutant))
        print(f"{len(mutants)} mutants; {equivalent} more are equivalent")
        return 0
    if not mutants:
        fail(4, "no mutant is chosen")
    results = []
    if options.record and options.record.exists():
        done = {(identity_of(result), result["begin"]): result
                for result in read_record(options.record)}
        keys = {(identity_of(mutant), mutant.begin) for mutant in mutants}
        results = [result for key, result in done.items() if key in keys]
        mutants = [m for m in mutants if (identity_of(m), m.begin) not in done]
    if mutants:
        results += judge_all(options, mutants)
    killed = report(sorted(results, key=place_of), equivalent)
    return 1 if killed < options.at_least else 0


if __name__ == "__main__":
    sys.exit(main())
