#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: gpu_images.py FOLDER [LIBRARY...]

What the compilers made of the GPU kernels of arax-std and arax-blas, or of each LIBRARY, against the manifests in FOLDER: each
symbol is an entry, and its parameters are a pointer and a 64-bit length for each range,
the plain arguments, and at most one more: a pointer or an arax_gpu_result.  And of PTX: blocks of 1,024 threads
have registers for all.  Reads PTX as text and by ptxas, and code objects' metadata (llvm-readelf); no GPU is
needed.  Prints TAP.
"""
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
RESULT = 32  # bytes of an arax_gpu_result
REGISTERS = 65536 // 1024  # of a multiprocessor, for each thread of the largest block


def wanted(signature):
    """[(bytes, is a pointer, is floating)] of the parameters, in the order of the ABI."""
    ranges, plain = [], []
    for param in re.search(r"\((.*)\)", signature).group(1).split(", "):
        words = param.split()
        kind = words[-2]
        if words[0] in ("in", "out", "inout"):
            ranges += [(8, True, False), (8, False, False)]
        else:
            plain.append((SIZES[kind[1:]], False, kind[0] == "f"))
    return ranges + plain


def ptx_entries(path):
    with open(path) as f:
        text = f.read()
    for name, params in re.findall(r"\.entry\s+(\w+)\s*\(([^)]*)\)", text):
        yield name, [ptx_param(p) for p in params.split(",") if p.strip()]


def ptx_param(param):
    """(bytes, is floating)"""
    plain = re.search(r"\.param\s+\.([a-z])(\d+)\b(?!.*\[)", param)
    array = re.search(r"\.param\s+\.align 8 \.b8 \w+\[(\d+)\]", param)
    if plain:
        return SIZES[plain.group(2)], plain.group(1) == "f"
    return (int(array.group(1)) if array else 0), False


def registers(path):
    """{kernel: registers of a thread}, on the oldest GPUs that it is for"""
    with open(path) as f:
        arch = re.search(r"^\.target (\w+)", f.read(), re.M).group(1)
    said = subprocess.run(["ptxas", "-v", f"-arch={arch}", "-o", "/dev/null", path], check=True,
                          capture_output=True, text=True).stderr
    return {name: int(n) for name, n in re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", said, re.S)}


def readelf():
    found = glob.glob("/usr/lib/llvm-*/bin/llvm-readelf") + [shutil.which("llvm-readelf")]
    return max((f for f in found if f), default=None)


def code_objects(path):
    """The parts of what `hipcc --genco` makes: (target, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    magic = b"__CLANG_OFFLOAD_BUNDLE__"
    assert data.startswith(magic), "not a bundle"
    at = len(magic) + 8
    for _ in range(struct.unpack_from("<Q", data, len(magic))[0]):
        offset, size, n = struct.unpack_from("<QQQ", data, at)
        target = data[at + 24:at + 24 + n].decode()
        at += 24 + n
        if size:
            yield target, data[offset:offset + size]


def hip_entries(image):
    with tempfile.NamedTemporaryFile() as f:
        f.write(image)
        f.flush()
        notes = subprocess.run([readelf(), "--notes", f.name], check=True, capture_output=True,
                               text=True).stdout
    for kernel in re.split(r"\n  - (?=\.)", notes.replace("\n---", "\n"))[1:]:
        args = []
        listed = re.search(r"\.args:(.*?)\n    \.\w", kernel, re.S)
        for arg in re.split(r"\n +- ", listed.group(1)):
            size = re.search(r"\.size: +(\d+)", arg)
            kind = re.search(r"\.value_kind: +(\w+)", arg)
            if size and not kind.group(1).startswith("hidden_"):
                args.append((int(size.group(1)), kind.group(1) == "global_buffer"))
        yield re.search(r"\n    \.name: +(\w+)", kernel).group(1), args


class Tap:
    def __init__(self):
        self.n = 0
        self.bad = False

    def check(self, name, ok, detail=""):
        self.n += 1
        print(f"{'ok' if ok else 'not ok'} {self.n} - {name}")
        if not ok:
            print(f"# {detail}")
            self.bad = True

    def skip(self, name, why):
        self.n += 1
        print(f"ok {self.n} - {name} # SKIP {why}")


def fits(want, has, same):
    return (len(has) in (len(want), len(want) + 1) and
            all(same(w, h) for w, h in zip(want, has)) and
            (len(has) == len(want) or same((8, True, False), has[-1]) or
             same((RESULT, False, False), has[-1])))


def same_ptx(w, h):
    return h == (w[0], w[2])


def same_hip(w, h):
    return h == (w[0], w[1])


def main(folder, libraries):
    tap = Tap()
    for library in libraries or ["arax-std", "arax-blas"]:
        manifest = os.path.join(folder, library + ".json")
        if os.path.exists(manifest):
            check_library(tap, folder, library, manifest)
        else:
            tap.skip(library, "it was not built: no OpenBLAS")
    print(f"1..{tap.n}")
    return tap.bad


def check_library(tap, folder, library, manifest):
    with open(manifest) as f:
        kernels = json.load(f)["kernels"]

    def listed(kind):
        return {i["symbol"]: wanted(k["signature"]) for k in kernels
                for i in k["implementations"] if i["kind"] == kind and "entry" not in i}

    def compare(name, want, entries, same):
        wrong = [f"{s}: {entries.get(s)} is not {w}" for s, w in want.items()
                 if s not in entries or not fits(w, entries[s], same)]
        name = f"{library}, {name}"
        tap.check(f"{name}: {len(want)} kernels have the parameters of their signatures",
                  want and not wrong, "; ".join(wrong))
        tap.check(f"{name}: and no kernel is there that the manifest lacks",
                  set(entries) == set(want), str(set(entries) ^ set(want)))
        # The other way round: what does not fit is seen.
        other = {s: w[:-1] + [(1, False, False)] for s, w in want.items()}
        tap.check(f"{name}: parameters that differ are told apart",
                  not any(fits(other[s], entries.get(s, []), same) for s in want))

    ptx, co = (os.path.join(folder, f"{library}.{e}") for e in ("ptx", "co"))
    if listed("cuda"):
        compare("PTX", listed("cuda"), dict(ptx_entries(ptx)), same_ptx)
    else:
        tap.skip(f"{library}, PTX", "it was built without nvcc")
    if listed("cuda") and shutil.which("ptxas"):
        used = registers(ptx)
        tap.check(f"{library}, PTX: blocks of 1,024 threads have registers for all",
                  set(used) == set(listed("cuda")) and max(used.values()) <= REGISTERS, str(used))
    else:
        tap.skip(f"{library}, PTX: registers", "it was built without nvcc, or no ptxas is here")
    if listed("hip") and readelf():
        for target, image in code_objects(co):
            compare(target, listed("hip"), dict(hip_entries(image)), same_hip)
    else:
        tap.skip(f"{library}, code objects", "it was built without hipcc, or no llvm-readelf is here")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
