#!/usr/bin/env python3
"""foreign_kernels.py: kernels of a foreign compiler (Triton), as PTX for the virtual GPU.

Our own kernels share their authors' reading of the lane layouts with the virtual GPU; a compiler
that only ever met real devices does not. Triton places every operand of ldmatrix, mma.sync,
cp.async and shfl itself; if one layout of the virtual GPU is wrong, its results are wrong.

Installs the pinned wheel into .deps/foreign/python (no driver or device is needed), compiles each
kernel for sm_80 and sm_90 and writes .deps/foreign/ptx/NAME.sm_XX.{ptx,json};
property_tests/foreign_kernels_test.cpp runs what the .json says. Exit 1 where a kernel lacks an
instruction that it is there for, 4 where pip or the wheel is not to be had.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

TRITON = "triton==3.9.0"
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".deps" / "foreign"


def install():
    python = FOLDER / "python"
    stamp = python / f".{TRITON}"
    if not stamp.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--upgrade",
                   "--only-binary", ":all:", "--target", str(python), TRITON]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"foreign_kernels: {TRITON} cannot be installed: {why}")
            sys.exit(4)
        stamp.touch()
    sys.path.insert(0, str(python))
    os.environ["TRITON_CACHE_DIR"] = str(FOLDER / "cache")
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # its default, said aloud: no warning


install()
try:
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
except ImportError as error:
    print(f"foreign_kernels: {TRITON} does not load: {error}")
    sys.exit(4)


@triton.jit
def matmul(a, b, c, m, n, k, a_row, a_column, b_row, b_column,
           TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
           A_TRANSPOSED: tl.constexpr, B_TRANSPOSED: tl.constexpr, SUM: tl.constexpr):
    """c[m, n] = a[m, k] x b[k, n]; a transposed operand lies in memory as [k, m] or [n, k]."""
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    columns = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    # The step of the contiguous axis is the constant 1, else no copy is wider than an element.
    if A_TRANSPOSED:
        a_at = a + rows[:, None] + inner[None, :] * a_column
    else:
        a_at = a + rows[:, None] * a_row + inner[None, :]
    if B_TRANSPOSED:
        b_at = b + inner[:, None] + columns[None, :] * b_column
    else:
        b_at = b + inner[:, None] * b_row + columns[None, :]
    total = tl.zeros((TILE_M, TILE_N), dtype=SUM)
    for start in range(0, k, TILE_K):
        in_k = start + inner < k
        x = tl.load(a_at, mask=(rows[:, None] < m) & in_k[None, :], other=0)
        y = tl.load(b_at, mask=in_k[:, None] & (columns[None, :] < n), other=0)
        total = tl.dot(x, y, total, out_dtype=SUM)
        a_at += TILE_K * (a_column if A_TRANSPOSED else 1)
        b_at += TILE_K * (1 if B_TRANSPOSED else b_row)
    c_at = c + rows[:, None] * n + columns[None, :]
    tl.store(c_at, total, mask=(rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def softmax(x, y, columns, SIZE: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, SIZE)
    inside = tl.arange(0, SIZE) < columns
    value = tl.load(x + at, mask=inside, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + at, power / tl.sum(power, 0), mask=inside)


@triton.jit
def scan(x, y, columns, SIZE: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, SIZE)
    inside = tl.arange(0, SIZE) < columns
    tl.store(y + at, tl.cumsum(tl.load(x + at, mask=inside, other=0), 0), mask=inside)


@triton.jit
def sort(x, y, columns, SIZE: tl.constexpr):
    at = tl.program_id(0) * columns + tl.arange(0, SIZE)
    inside = tl.arange(0, SIZE) < columns
    value = tl.load(x + at, mask=inside, other=0x7FFFFFFF)
    tl.store(y + at, tl.sort(value), mask=inside)


DIVISIBLE = [["tt.divisibility", 16]]


def matmul_case(name, element, a_transposed, b_transposed, needs, tile=(64, 32, 32)):
    # Edges inside a tile on every side; every row is a multiple of 16 bytes, as wide copies want.
    m, n, k = 144, 80, 208
    kind = {"f16": ("*fp16", "*fp32"), "bf16": ("*bf16", "*fp32"), "s8": ("*i8", "*i32"),
            "tf32": ("*fp32", "*fp32")}[element]
    strides = {"a_row": 1 if a_transposed else k, "a_column": m if a_transposed else 1,
               "b_row": 1 if b_transposed else n, "b_column": k if b_transposed else 1}
    scalars = {"m": m, "n": n, "k": k, **strides}
    return {
        "name": name, "function": matmul, "needs": needs,
        "signature": {"a": kind[0], "b": kind[0], "c": kind[1], **{s: "i32" for s in scalars}},
        "constants": {"TILE_M": tile[0], "TILE_N": tile[1], "TILE_K": tile[2],
                      "A_TRANSPOSED": a_transposed, "B_TRANSPOSED": b_transposed,
                      "SUM": tl.int32 if element == "s8" else tl.float32},
        "scalars": scalars, "grid": [-(-m // tile[0]), -(-n // tile[1])],
        # Two warps: with four, sm_90 would use wgmma, which is not the instruction under test.
        "warps": 2,
        "law": {"operation": "matmul", "element": element, "m": m, "n": n, "k": k,
                "a_transposed": a_transposed, "b_transposed": b_transposed},
    }


def row_case(name, function, element, size, warps, needs):
    rows, columns = 3, size - 23  # the last lanes are masked
    return {
        "name": name, "function": function, "needs": needs,
        "signature": {"x": element, "y": element, "columns": "i32"}, "constants": {"SIZE": size},
        "scalars": {"columns": columns}, "grid": [rows, 1], "warps": warps,
        "law": {"operation": name.split("_")[0], "rows": rows, "columns": columns},
    }


def cases():
    copies = [r"cp\.async\.c[ag]\.shared\.global", r"cp\.async\.wait_group"]
    plain, trans = r"ldmatrix\.sync\.aligned\.m8n8\.x\d\.shared", r"ldmatrix\S*\.trans"
    f16, bf16 = r"mma\S*m16n8k16\S*f16\.f16\.f32", r"mma\S*m16n8k16\S*bf16\.bf16\.f32"
    return [
        matmul_case("matmul_f16", "f16", False, False, copies + [plain, trans, f16]),
        matmul_case("matmul_f16_b_transposed", "f16", False, True, copies + [plain, f16]),
        matmul_case("matmul_f16_a_transposed", "f16", True, False, copies + [trans, f16]),
        matmul_case("matmul_bf16_both_transposed", "bf16", True, True,
                    copies + [plain, trans, bf16]),
        matmul_case("matmul_s8_b_transposed", "s8", False, True,
                    copies + [plain, r"mma\S*m16n8k32\S*s8\.s8\.s32"]),
        matmul_case("matmul_tf32_b_transposed", "tf32", False, True,
                    copies + [plain, r"mma\S*m16n8k8\S*tf32\.tf32\.f32"]),
        row_case("softmax_one_warp", softmax, "*fp32", 128, 1, [r"shfl\.sync\.bfly"]),
        row_case("softmax_four_warps", softmax, "*fp32", 256, 4, [r"shfl\.sync\.bfly"]),
        row_case("scan_four_warps", scan, "*i32", 512, 4, [r"shfl\.sync\.up"]),
        row_case("sort_two_warps", sort, "*i32", 256, 2, [r"shfl\.sync\.(bfly|idx)"]),
    ]


def parameters_of(case, ptx):
    """Every parameter of the entry in order; what Triton adds at the end are scratch pointers."""
    header = re.search(r"\.entry\s+\w+\((.*?)\)", ptx, re.S).group(1)
    kinds = re.findall(r"\.param\s+\.(\w+)", header)
    entries = [{"buffer": name} if kind.startswith("*") else {"i32": case["scalars"][name]}
               for name, kind in case["signature"].items()]
    for kind, entry in zip(kinds, entries):
        assert kind == ("u64" if "buffer" in entry else "u32"), (case["name"], kinds)
    hidden = kinds[len(entries):]
    assert len(kinds) >= len(entries) and all(kind == "u64" for kind in hidden), kinds
    return entries + [{"null": True} for _ in hidden]


def compile_case(case, sm):
    names = list(case["signature"]) + list(case["constants"])
    signature = {**case["signature"], **{name: "constexpr" for name in case["constants"]}}
    divisible = {(index,): DIVISIBLE for index, name in enumerate(names)
                 if case["function"] is matmul and name not in case["constants"] and
                 case["scalars"].get(name, 16) % 16 == 0}
    source = ASTSource(fn=case["function"], signature=signature, constexprs=case["constants"],
                       attrs=divisible)
    compiled = triton.compile(source, target=GPUTarget("cuda", sm, 32),
                              options={"num_warps": case["warps"], "num_stages": 3})
    ptx, metadata = compiled.asm["ptx"], compiled.metadata
    missing = [need for need in case["needs"] if not re.search(need, ptx)]
    if missing:
        print(f"foreign_kernels: {case['name']} for sm_{sm} is without {', '.join(missing)}")
    assert metadata.global_scratch_size == 0 and metadata.profile_scratch_size == 0
    name = f"{case['name']}.sm_{sm}"
    (FOLDER / "ptx" / f"{name}.ptx").write_text(ptx)
    manifest = {"name": case["name"], "sm": sm, "entry": metadata.name, "grid": case["grid"],
                "block": 32 * metadata.num_warps, "shared_bytes": metadata.shared,
                "parameters": parameters_of(case, ptx), **case["law"]}
    (FOLDER / "ptx" / f"{name}.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return not missing


def main():
    (FOLDER / "ptx").mkdir(parents=True, exist_ok=True)
    for old in (FOLDER / "ptx").iterdir():
        old.unlink()
    results = [compile_case(case, sm) for case in cases() for sm in (80, 90)]
    print(f"foreign_kernels: {len(results)} kernels by {TRITON} in .deps/foreign/ptx")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
