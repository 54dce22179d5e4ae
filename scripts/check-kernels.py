#!/usr/bin/env python3
"""Checks the machine code of the CUDA device's kernels, without a GPU:

  - A kernel that streams reads and writes four floats at once (ld.global.v4, st.global.v4 of its PTX). The tables below name
    each kernel once; a kernel that does not stream has its reason there.
  - No kernel spills registers or uses a stack, on any GPU that it was built for.
  - A kernel uses few enough registers that half of a multiprocessor's threads can run at a time.

Reads the library of a build, and compiles nothing. Usage: check-kernels.py LIBRARY [--table] | --self-test
Prints each violation, and exits with 1. Exits with 77 if the library has no PTX and the other checks pass.
--table prints the figures of each kernel.
"""
import argparse
import pathlib
import re
import struct
import sys

# Kernel -> (tensors that a thread reads by four, tensors that it writes by four). `_wide` kernels are as their narrow ones.
STREAM = {
    "relu_forward": (1, 1), "relu_backward": (2, 1), "add": (2, 1),
    "activation_forward": (1, 1), "activation_backward": (2, 1),
    "dropout_rows": (1, 1), "dropout_channels": (1, 1),
    "max_pool_forward": (1, 2),  # the index as well: int32_t
    "max_pool_backward": (2, 1),
    "avg_pool_forward": (1, 1), "avg_pool_backward": (1, 1),
    "upsample_forward": (1, 1), "upsample_backward": (1, 1), "mean_pool_forward": (1, 1), "mean_pool_backward": (1, 1),
    "copy": (1, 1),
    "norm_apply": (1, 1), "norm_apply_relu": (2, 1), "norm_backward": (2, 1), "norm_relu_backward": (2, 1),
    "group_forward": (1, 1), "group_backward": (2, 1),
    "element_loss_backward": (2, 1),
    "sgd": (3, 2),  # the second state is Adam's
    "adam": (4, 3),
    "square_sum": (1, 0), "element_loss_sum": (2, 0),  # what they write is one number for a block
}

COLUMNS = "each thread sums one column; a warp reads 32 neighbouring columns, 128 bytes"
TEAM = "wider reads would change the order of the sum; neighbouring threads read neighbouring elements"
SMALL = "a few numbers for a channel, a group or a block"
NOT_BY_FOUR = {
    "column_moments": COLUMNS, "bias_sums": COLUMNS, "norm_products": COLUMNS, "norm_relu_products": COLUMNS,
    "group_products": COLUMNS,
    "group_row_forward": TEAM, "group_row_backward": TEAM, "cross_entropy_forward": TEAM, "cross_entropy_backward": TEAM,
    "dropout_pictures": "a draw's four elements lie in four rows; neighbouring threads have neighbouring channels",
    "transpose": "a tile goes through shared memory, so that neighbours read neighbours and write neighbours",
    "bias_total": SMALL, "column_totals": SMALL, "norm_statistics": SMALL, "norm_merge": SMALL, "norm_merge_sums": SMALL,
    "norm_commit": SMALL, "group_statistics": SMALL,
    "group_sums": SMALL, "sum_partial": SMALL, "clip_total": SMALL, "loss_total": SMALL,
}

# Blocks of 256 threads: four on a multiprocessor of 65,536 registers are 1,024 of its 2,048 threads.
REGISTERS = 64
# Three blocks: coordinates of 64 bits, for tensors beyond 2^31 elements alone; forward average pooling adds in f64 as well.
REGISTERS_OF = {"max_pool_backward_wide": 80, "avg_pool_backward_wide": 80, "avg_pool_forward_wide": 80}

FATBIN, FATBIN_HEADER, FATBIN_ENTRY = 0xBA55ED50, struct.Struct("<IHHQ"), struct.Struct("<HHIQIIHHI")
PTX, CUBIN = 1, 2
# Attributes of a cubin's .nv.info: (symbol, number) each.
STACK, REGISTER_COUNT = 0x11, 0x2F
KERNEL = re.compile(r"_Z\d+gp_kernel_(\w+?)\d+gp_kernel_\w+_args$")
ACCESS = re.compile(r"\s*(?:@\S+\s+)?(ld|st)\.global((?:\.\w+)*)\.v4\.\w+\s")


def kernel_name(symbol):
    match = KERNEL.match(symbol)
    return match.group(1) if match else None


def fatbin_entries(data):
    """(kind, architecture, bytes; None where they are compressed) of all that is embedded in a library."""
    at = data.find(struct.pack("<I", FATBIN))
    while at >= 0:
        _, _, header, size = FATBIN_HEADER.unpack_from(data, at)
        place, end = at + header, at + header + size
        while place < end:
            kind, _, header, size, compressed, _, _, _, architecture = FATBIN_ENTRY.unpack_from(data, place)
            yield kind, architecture, None if compressed else data[place + header:place + header + size]
            place += header + size
        at = data.find(struct.pack("<I", FATBIN), end)


def ptx_accesses(text):
    """{kernel: [ld.global.v4, st.global.v4]}, counted."""
    found, counts = {}, None
    for line in text.splitlines():
        if ".entry" in line:
            counts = found.setdefault(kernel_name(line.split(".entry", 1)[1].split("(")[0].strip()), [0, 0])
        match = ACCESS.match(line)
        if match and counts is not None:
            counts[0 if match.group(1) == "ld" else 1] += 1
    return found


def elf_sections(data):
    """(name, bytes, link) of each section of a 64-bit ELF file."""
    (table,), (size, count, names) = struct.unpack_from("<Q", data, 0x28), struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for name, kind, _, _, offset, length, link, *_ in headers:
        start = headers[names][4] + name
        yield data[start:data.index(b"\0", start)].decode(), b"" if kind == 8 else data[offset:offset + length], link


def cubin_usage(data):
    """{kernel: {REGISTER_COUNT: registers, STACK: bytes of a thread's stack, spills among them}}."""
    sections = list(elf_sections(data))
    symbols, link = next((body, link) for name, body, link in sections if name == ".symtab")
    info = next(body for name, body, _ in sections if name == ".nv.info")
    names, usage, at = sections[link][1], {}, 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:  # its value, if any, stands in place of a size
            continue
        if attribute in (STACK, REGISTER_COUNT):
            symbol, number = struct.unpack_from("<II", info, at)
            start = struct.unpack_from("<I", symbols, 24 * symbol)[0]
            kernel = kernel_name(names[start:names.index(b"\0", start)].decode())
            if kernel:  # not a function that is called, such as division's
                usage.setdefault(kernel, {})[attribute] = number
        at += size
    return usage


def read_library(path):
    """({kernel: v4 accesses}, {(kernel, architecture): usage})"""
    accesses, usage = {}, {}
    for kind, architecture, body in fatbin_entries(path.read_bytes()):
        if body is None:
            sys.exit(f"check-kernels: {path} has compressed code: build it with nvcc's --no-compress")
        if kind == PTX:
            accesses.update(ptx_accesses(body.rstrip(b"\0").decode()))
        elif kind == CUBIN:
            usage.update({(kernel, architecture): numbers for kernel, numbers in cubin_usage(body).items()})
    return accesses, usage


def table_messages(kernels):
    """Each kernel stands in one table, and what stands there is a kernel."""
    narrow = {kernel.removesuffix("_wide") for kernel in kernels}
    messages = [f"{name}: in no table of check-kernels.py" for name in narrow - STREAM.keys() - NOT_BY_FOUR.keys()]
    messages += [f"{name}: in both tables of check-kernels.py" for name in STREAM.keys() & NOT_BY_FOUR.keys()]
    return messages + [f"{name}: not in the library" for name in (STREAM.keys() | NOT_BY_FOUR.keys()) - narrow]


def access_messages(accesses):
    messages = []
    for kernel, counts in accesses.items():
        wanted = STREAM.get(kernel.removesuffix("_wide"), (0, 0))
        for what, count, least in zip(("ld.global.v4", "st.global.v4"), counts, wanted):
            if count < least:
                messages.append(f"{kernel}: {count} {what} in its PTX, must be at least {least}")
    return messages


def usage_messages(usage):
    messages = []
    for (kernel, architecture), numbers in usage.items():
        most = REGISTERS_OF.get(kernel, REGISTERS)
        if numbers[REGISTER_COUNT] > most:
            messages.append(f"{kernel}: {numbers[REGISTER_COUNT]} registers on sm_{architecture}, must be at most {most}")
        if numbers[STACK] > 0:
            messages.append(f"{kernel}: {numbers[STACK]} bytes of stack or spilled registers on sm_{architecture}")
    return messages


def print_table(accesses, usage):
    architectures = sorted({architecture for _, architecture in usage})
    print("kernel".ljust(28), "ld.v4 st.v4", *(f"registers sm_{a}" for a in architectures))
    for kernel in sorted({kernel for kernel, _ in usage}):
        counts = accesses.get(kernel, ["-", "-"])
        print(kernel.ljust(28), f"{counts[0]:>5} {counts[1]:>5}",
              *(f"{usage[kernel, a][REGISTER_COUNT]:>15}" for a in architectures), NOT_BY_FOUR.get(kernel.removesuffix("_wide"), ""))


def self_test():
    """Made-up PTX and figures: right ones, then one thing wrong at a time."""
    entry = ".visible .entry _Z16gp_kernel_{0}18gp_kernel_map_args(\n"
    text = entry.format("add") + "\tld.global.v4.f32 \t{%f1}, [%rd1];\n" * 2 + "@%p1 st.global.wb.v4.f32 [%rd2], {%f1};\n"
    single = entry.format("add_wide") + "\tld.global.v4.f32 \t{%f1}, [%rd1];\n\tst.global.f32 [%rd2], %f1;\n"
    assert ptx_accesses(text + single) == {"add": [2, 1], "add_wide": [1, 0]}
    assert not access_messages({"add": [2, 1], "bias_sums": [0, 0]})
    assert access_messages({"add_wide": [1, 0]}) == ["add_wide: 1 ld.global.v4 in its PTX, must be at least 2",
                                                     "add_wide: 0 st.global.v4 in its PTX, must be at least 1"]
    every = STREAM.keys() | NOT_BY_FOUR.keys()
    assert not table_messages(every | {"add_wide"})
    assert table_messages(every | {"more_wide"}) == ["more: in no table of check-kernels.py"]
    assert table_messages(every - {"add"}) == ["add: not in the library"]
    assert not usage_messages({("add", 90): {REGISTER_COUNT: 64, STACK: 0}})
    assert usage_messages({("add", 90): {REGISTER_COUNT: 65, STACK: 8}}) == [
        "add: 65 registers on sm_90, must be at most 64", "add: 8 bytes of stack or spilled registers on sm_90"]
    print("check-kernels: finds narrow accesses, spilled registers and kernels without a table entry")


def main():
    parser = argparse.ArgumentParser(description="Checks the machine code of the CUDA device's kernels.")
    parser.add_argument("library", type=pathlib.Path, nargs="?", help="libgp_cuda_kernels.a of a build")
    parser.add_argument("--table", action="store_true", help="prints the figures of each kernel")
    parser.add_argument("--self-test", action="store_true", help="tests this script on sample kernels")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return 0
    if not options.library:
        parser.error("which library?")
    accesses, usage = read_library(options.library)
    kernels = {kernel for kernel, _ in usage} | accesses.keys()
    if options.table:
        print_table(accesses, usage)
    messages = sorted(table_messages(kernels) + access_messages(accesses) + usage_messages(usage))
    for kernel in sorted(kernels - accesses.keys()) if accesses else []:
        messages.append(f"{kernel}: no PTX")
    print("\n".join(messages) or f"check-kernels: {len(kernels)} kernels are as they should be"
          + ("" if accesses else "; memory accesses not checked: the library has no PTX"))
    return 1 if messages else 0 if accesses else 77


if __name__ == "__main__":
    sys.exit(main())
