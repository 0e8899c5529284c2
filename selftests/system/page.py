#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: page.py PAGE SECTION FOLDER [--without FILE]

What a reader has who does as a section of PAGE says, of which SECTION is the heading: its files in FOLDER, and its
commands on standard output.  A file's text is behind a line that ends in "`NAME`:", or in "beside the files above:"
after its name; behind "in `NAME.json`:" is what is new in that manifest: its implementations, or more of them.
--without: what is new but for the lines that name FILE, which the reader doesn't have.
"""
import argparse
import os
import re


def walk(lines, heading):
    """The section's (file or "", is it new in that file, text) of each block, and ("$", False, command)."""
    inside, told, block = False, "", None
    for line in lines:
        if block is not None:
            if line != "```":
                block.append(line)
                continue
            name = re.search(r"`([\w.-]+)`(, beside the files above)?:$", told)
            if inside and name:
                yield name.group(1), f"in `{name.group(1)}`:" in told, block
            block = None
        elif line.startswith("```"):
            block = []
        elif line.startswith("#"):
            inside = line.lstrip("#").strip() == heading
        elif line.startswith("    ") and inside:
            yield "$", False, [line[4:]]
        elif line:
            told = line


def change(manifest, new):
    text = "\n".join(new).strip().rstrip(",")
    if text.startswith('"implementations"'):
        changed, n = re.subn(r'"implementations": \[.*?\]', lambda _: text, manifest, flags=re.S)
    else:
        changed, n = re.subn(r'("implementations": \[.*?) \]', lambda m: f"{m.group(1)},\n{text} ]", manifest,
                             flags=re.S)
    assert n == 1, manifest
    return changed


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in "page", "section", "folder":
        parser.add_argument(name)
    parser.add_argument("--without", action="append", default=[])
    args = parser.parse_args()
    with open(args.page) as f:
        lines = f.read().splitlines()
    for name, is_new, block in walk(lines, args.section):
        path = os.path.join(args.folder, name)
        if name == "$":
            print(block[0])
            continue
        text = "\n".join(block) + "\n"
        if is_new:
            kept = [line for line in block if not any(f'"{w}"' in line for w in args.without)]
            with open(path) as f:
                text = change(f.read(), kept) if kept else f.read()
        with open(path, "w") as f:
            f.write(text)


main()
