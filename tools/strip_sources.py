#!/usr/bin/env python3
"""Takes source positions out of HLO modules, in place. Needs Python only.

    python3 tools/strip_sources.py corpus/tx_model__*/module.pb

Exporters write the paths of their own machine into a module: `OpMetadata.source_file`
and `source_line` of instructions (fields 3 and 4 of xla_data.proto), `stack_frame_id`
(15), and the module's `stack_frame_index` (17 of hlo.proto). Everything else keeps
its bytes.
"""

import pathlib
import sys

MODULE_COMPUTATIONS, MODULE_STACK_FRAMES = 3, 17
COMPUTATION_INSTRUCTIONS = 2
INSTRUCTION_METADATA = 7
METADATA_SOURCES = (3, 4, 15)


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def encoded(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(message):
    """Number, content and all bytes of each field; content of nested ones only."""
    at = 0
    while at < len(message):
        start = at
        key, at = varint(message, at)
        content = None
        if key & 7 == 0:
            _, at = varint(message, at)
        elif key & 7 == 1:
            at += 8
        elif key & 7 == 5:
            at += 4
        elif key & 7 == 2:
            size, at = varint(message, at)
            content = message[at : at + size]
            at += size
        else:
            raise ValueError(f"wire type {key & 7}")
        yield key >> 3, content, message[start:at]


def without(message, dropped, nested=0, change=None):
    """The message without some fields, and with the nested ones changed."""
    out = b""
    for number, content, raw in fields(message):
        if number in dropped:
            continue
        if number == nested and content is not None:
            content = change(content)
            raw = encoded(number << 3 | 2) + encoded(len(content)) + content
        out += raw
    return out


def instruction(message):
    return without(message, (), INSTRUCTION_METADATA, lambda metadata: without(metadata, METADATA_SOURCES))


def computation(message):
    return without(message, (), COMPUTATION_INSTRUCTIONS, instruction)


def stripped(module):
    return without(module, (MODULE_STACK_FRAMES,), MODULE_COMPUTATIONS, computation)


def main():
    for path in map(pathlib.Path, sys.argv[1:]):
        module = path.read_bytes()
        path.write_bytes(stripped(module))
        print(f"{path}: {len(module)} bytes became {path.stat().st_size}")


if __name__ == "__main__":
    main()
