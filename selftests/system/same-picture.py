#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""same-picture.py A.png B.png STEPS: grey pictures of 8 bits, no pixel further apart."""
import struct
import sys
import zlib


def read(path):
    """Width, height and the rows, without their filters."""
    data = open(path, 'rb').read()
    at, packed, head = 8, b'', None
    while at < len(data):
        size, kind = struct.unpack('>I4s', data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b'IHDR':
            head = struct.unpack('>IIBBBBB', body)
        elif kind == b'IDAT':
            packed += body
        at += size + 12
    width, height, depth, colour = head[:4]
    if (depth, colour) != (8, 0):
        sys.exit(f'{path}: not grey of 8 bits')
    raw, rows, up = zlib.decompress(packed), [], bytes(width)
    for y in range(height):
        how = raw[y * (width + 1)]
        row = bytearray(raw[y * (width + 1) + 1:(y + 1) * (width + 1)])
        for x in range(width):
            left = row[x - 1] if x else 0
            corner = up[x - 1] if x else 0
            guess = left + up[x] - corner
            paeth = min((left, up[x], corner), key=lambda v: abs(guess - v))
            row[x] = (row[x] + (0, left, up[x], (left + up[x]) // 2, paeth)[how]) & 255
        rows.append(bytes(row))
        up = row
    return width, height, rows


a, b, steps = read(sys.argv[1]), read(sys.argv[2]), int(sys.argv[3])
if a[:2] != b[:2]:
    sys.exit(f'{a[:2]} and {b[:2]} pixels')
worst = max(abs(p - q) for r, s in zip(a[2], b[2]) for p, q in zip(r, s))
print(f'pixels differ by {worst} at most')
sys.exit(worst > steps)
