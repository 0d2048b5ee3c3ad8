#!/usr/bin/env python3
"""Answers to exercises that the grader has to see through, made of the solutions: what is replaced in each, and what the grader
says. They are written as files here, and built with the exercises (tests/exercises); grade_tests.py has them graded.

usage: answers.py [-o DIRECTORY]; without it, the names of those that are built
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tools"))
sys.dont_write_bytecode = True
import exercises  # noqa: E402

# A slot that is taken by compare-and-swap, and written again without.
TAKES_AND_WRITES = ("if (found == kFree || found == column) return slot;",
                    "if (found == kFree || found == column) {\n      keys[slot] = column;\n      return slot;\n    }")

# One thread does all rows.
ONE_BY_ONE = [("const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;",
               "if (blockIdx.x + threadIdx.x > 0) return;\n  for (unsigned row = 0; row < static_cast<unsigned>(a.rows); ++row) {"), ("y[row] = sum;", "y[row] = sum;\n  }")]

# Answers to exercises that multiply right on the executor, and miss the idea (without a step: micro-exercises): what becomes of the solution's lines,
# the demands that are lost, and how they are.
WASTEFUL = [
    ("06_thread_index.cu", [("blockIdx.x * blockDim.x + threadIdx.x;", "threadIdx.x * gridDim.x + blockIdx.x;")],
     {"At most: 3 sectors a request in loads": r"1\d\.\d a request"}),
    ("06_thread_index.cu", ONE_BY_ONE, {"At least: 28 lanes a request in loads": "1 a request"}),
    ("07_tail.cu", ONE_BY_ONE, {"At least: 31 lanes a request in accesses": "1 a request"}),
    ("07_tail.cu", [("const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;",
                     "const unsigned row = min(blockIdx.x * blockDim.x + threadIdx.x, static_cast<unsigned>(a.rows) - 1);")],
     {"At most: 31.8 lanes a request in accesses": "32 a request"}),
    ("08_grid_stride.cu", [("row = first; row < rows; row += threads", "row = first * ((rows + 31) / 32), end = row + (rows + 31) / 32; row < min(rows, end); ++row")],
     {"At most: 2 sectors a request in loads": r"8\.\d* a request"}),
    ("08_grid_stride.cu", [("row = first; row < rows; row += threads", "row = 0; first == 0 && row < rows; row += threads / threads")],
     {"At least: 15 lanes a request in loads": "1 a request"}),
    ("09_coalesced_store.cu", [("kHigh + threadIdx.y", "kHigh + threadIdx.x % kHigh"),
                               ("kWide + threadIdx.x", "kWide + threadIdx.y * 4 + threadIdx.x / kHigh")],
     {"At most: 4.5 sectors a request in stores": "8 a request"}),
    ("09_coalesced_store.cu", [("const Offset i = Offset{blockIdx.y} * kHigh + threadIdx.y;", "if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y > 0) return;"),
                               ("const Offset j = Offset{blockIdx.x} * kWide + threadIdx.x;", "for (Offset i = 0; i < c.rows; ++i)"),
                               ("if (i >= c.rows || j >= c.cols) return;", "for (Offset j = 0; j < c.cols; ++j)")],
     {"At least: 28 lanes a request in stores": "1 a request"}),
    ("10_barrier.cu", [("}\n    __syncthreads();", "}\n    __syncwarp();")],
     {"At most: 220 barriers": "there are 300", "No race": "missing: a __syncthreads"}),
    ("10_barrier.cu", [("}\n    __syncthreads();", "}\n    __syncthreads();\n    __syncthreads();")], {"At most: 220 barriers": "there are 300"}),
    ("10_barrier.cu", [("* tile[k]", "* x[first + k]")], {"At most: 300 requests in loads of x": r"\.cu:\d+: 11,400"}),
    ("11_bank_conflict.cu", [("row * kPitch + column", "row + column * (kPitch - 1)")], {"No bank conflict": "360,000 wavefronts"}),
    ("11_bank_conflict.cu", [("kPitch = kWarp + 1", "kPitch = kWarp")], {"No bank conflict": r"\.cu:\d+: [0-9,]+ wavefronts, and [0-9,]+ without conflicts"}),
    ("12_double_buffer.cu", [("buffer[t % 2]);\n", "buffer[t % 2]);\n__syncthreads();\n")], {"At most: 110 barriers": "there are 200 barriers"}),
    ("12_double_buffer.cu", [("    __syncthreads();\n    if", "    if (t == 0) __syncthreads(); else __syncwarp();\n    if")],
     {"At most: 110 barriers": "there are 190 barriers", "No race": "missing: a __syncthreads"}),
    ("12_double_buffer.cu", [("use(t, buffer[t % 2]);", "use(t, x + t * kBlock);")], {"At most: 300 requests in loads of x": r"\.cu:\d+: 11,400"}),
    ("13_vector_load.cu", [("*reinterpret_cast<const Pack<T>*>(row + first)", "[=] { Pack<T> p; for (Index u = 0; u < kPack; ++u) p.value[u] = row[first + u]; return p; }()")],
     {"At most: 16,000 requests in loads": "24,000"}),
    # The contiguous answer: each lane has a part of the row of its own, in packs of 16 bytes.
    ("13_vector_load.cu", [("first = static_cast<Index>(lane) * kPack; first < a.ld; first += 32 * kPack",
                            "each = (static_cast<Index>(a.ld) + 32 * kPack - 1) / (32 * kPack) * kPack, first = static_cast<Index>(lane) * each; "
                            "first < min(static_cast<Index>(a.ld), static_cast<Index>(lane + 1) * each); first += kPack")],
     {"At most: 17 sectors a request in loads of values": r"\.cu:\d+: \d\d(\.\d)? a request"}),
    ("14_ellpack_index.cu", [("k * a.rows + i", "i * a.width + k"),
                             ("static_cast<std::size_t>(p - a.row_ptr[i]) * rows + i", "i * static_cast<std::size_t>(width) + static_cast<std::size_t>(p - a.row_ptr[i])")],
     {"At most: 13 sectors a request in loads": r"\.cu:\d+: .* a request"}),
    ("14_ellpack_index.cu", [("const Index i = static_cast<Index>(blockIdx.x * kBlock + threadIdx.x);",
                              "if (blockIdx.x + threadIdx.x > 0) return;\n  for (Index i = 0; i < a.rows; ++i) {"), ("y[i] = sum;", "y[i] = sum;\n  }")],
     {"At least: 20 lanes a request in loads": "1 a request"}),
    ("15_shuffle_reduction.cu", [("  for (unsigned d = kWarp / 2; d > 0; d /= 2) sum += __shfl_down_sync(kAllLanes, sum, d);",
                                  "  __shared__ T room[kBlock];\n  room[threadIdx.x] = sum;\n  __syncwarp();\n"
                                  "  if (threadIdx.x % 32 == 0) for (unsigned k = 1; k < 32; ++k) sum += room[threadIdx.x + k];")],
     {"At most: 0 requests in shared accesses": r"\.cu:\d+: 18,600"}),
    # Each lane gets the sum, and lane 0 alone needs it.
    ("15_shuffle_reduction.cu", [("sum += __shfl_down_sync(kAllLanes, sum, d);", "sum += __shfl_down_sync(kAllLanes, sum, d);\n  sum = __shfl_sync(kAllLanes, sum, 0);")],
     {"At most: 3,100 barriers": "there are 3,600 barriers"}),
    ("15_shuffle_reduction.cu", [("+ static_cast<std::int32_t>(lane); p < a.row_ptr[row + 1]; p += 32", "; lane == 0 && p < a.row_ptr[row + 1]; ++p")],
     {"At least: 8 lanes a request in loads of values": "1 a request"}),
    ("16_part_of_warp.cu", [("(lane - place);\n", "(lane - place);\n  if (place == 0) {\n    T all = 0;\n    for (std::int32_t p = a.row_ptr[row]; p < a.row_ptr[row + 1]; ++p) "
                                                "all += a.values[p] * x[a.col_idx[p]];\n    y[row] = all;\n  }\n  if (kPart == 8) return;\n")],
     {"At most: 330 requests in loads of values": r"\.cu:\d+: 2,015"}),
    ("17_row_of_entry.cu", [("(low + high) / 2", "low + 1")], {"At most: 3,000 requests in loads of rows": r"\.cu:\d+: \d\d,\d+"}),
    ("18_scan_of_counts.cu", [("d = 1; d < kWarp; d *= 2", "d = 0; d < kWarp; ++d"), ("__shfl_up_sync(kAllLanes, sum, d)", "__shfl_sync(kAllLanes, count, d)"),
                              ("lane >= d", "lane > d")], {"At most: 120 barriers": "there are 627 barriers"}),
    ("18_scan_of_counts.cu", [("  for (unsigned d = 1; d < kWarp; d *= 2) {\n    const Index other = __shfl_up_sync(kAllLanes, sum, d);\n    if (lane >= d) sum += other;\n  }",
                               "  __shared__ Index room[32];\n  room[lane] = count;\n  __syncwarp();\n  for (unsigned k = 0; k < lane; ++k) sum += room[k];\n  __syncwarp();")],
     {"At most: 0 requests in shared accesses": r"\.cu:\d+: 589; all lines together: 609"}),
    ("19_balance.cu", [("(low + high) / 2", "low")], {"At most: 500 requests in loads of rows": r"\.cu:\d+: 5\d\d"}),
    ("20_bitmap_rank.cu", [("begin += __popc(word)", "begin += __popc(__ballot_sync(0xffffffffu, (word >> lane & 1u) != 0))")],
     {"At most: 3,150 barriers": "there are 14,400 barriers"}),
    ("20_bitmap_rank.cu", [("    if ((word >> lane", "    begin = a.row_ptr[i];\n    for (Index v = 0; v < w; ++v) begin += __popc(a.words[i * a.width + v]);\n    if ((word >> lane")],
     {"At most: 22,500 requests in loads": r"\.cu:\d+: [0-9,]{6,}"}),
    ("21_broadcast.cu", [("__shfl_sync(kAllLanes, column, k)", "a.col_idx[first + k]"), ("__shfl_sync(kAllLanes, value, k)", "a.values[first + k]")],
     {"At most: 10,000 requests in loads": "19,200"}),
    ("22_histogram.cu", [("atomicAdd(&mine[bin], 1)", "++mine[bin]")], {"No race": "read-after-write"}),
    ("22_histogram.cu", [("atomicAdd(&mine[bin], 1)", "atomicAdd(&bins[bin], 1)"), ("  if (t < kBins) atomicAdd(&bins[t], mine[t]);\n", "")],
     {"At most: 32 requests in global atomics": r"\.cu:\d+: 19; all lines together: 38"}),
    ("23_warp_leader.cu", [("  const unsigned with = ", "  if (kBlock > 0) return wants ? atomicAdd(&counter[0], 1) : 0;\n  const unsigned with = ")],
     {"At most: 1 lanes a request in atomics": "31.6 a request"}),
    ("07_spmm/warp_per_row.cu", [("(blockIdx.x * kBlock + threadIdx.x) / kWarp;", "blockIdx.x * kBlock / kWarp + threadIdx.x % 4;"),
                                 ("threadIdx.x % kWarp);", "threadIdx.x / 4 % 4 * 8 + threadIdx.x / 16);")],
     {"At most: 4.1 sectors a request in loads of b": r"warp_per_row\.cu:\d+: 1\d(\.\d)? a request"}),
    ("07_spmm/split_rows.cu", [("kChunk = 64", "kChunk = 4")], {"At most: 660 requests in atomics": r"split_rows\.cu:\d+: 1,\d\d\d"}),
    ("07_spmm/slots.cu", [("  slots[(first_slot[row] + blockIdx.z) * columns + j] = sum;",
                           "  T* const slot = slots + (first_slot[row] + blockIdx.z) * columns + j;\n  if (threadIdx.x % kWarp < 31 && j + 1 < columns) slot[1] = sum;\n"
                           "  *slot = 0;\n  atomicAdd(slot, sum);")],
     {"At most: 0 requests in atomics": r"slots\.cu:\d+: 600", "No race": "a race: write-after-write"}),
    ("08_spgemm_multigpu/full_table.cu", [("static_cast<unsigned>(column) & (slots - 1);", "static_cast<unsigned>(column) & (slots - 32);"), TAKES_AND_WRITES],
     {"At most: 200,000 requests in atomics": r"full_table\.cu:\d+: [0-9,]{7,}", "No race": "a race: "}),
    ("08_spgemm_multigpu/hash_slot.cu", [("__umulhi(static_cast<unsigned>(column) * 0x9E3779B1u, slots);", "0;"), TAKES_AND_WRITES],
     {"At most: 42,000 requests in atomics": r"hash_slot\.cu:\d+: [0-9,]{6,}", "No race": "a race: "}),
    ("08_spgemm_multigpu/new_keys.cu", [("Index found = seen(keys, slot);\n    if (found == kFree) found =", "const Index found =")],
     {"At most: 2,800 requests in atomics": r"new_keys\.cu:\d+: 7,8\d\d"}),
    ("08_spgemm_multigpu/new_keys.cu", [("found = atomicCAS(&keys[slot], kFree, column);", "keys[slot] = column;")],
     {"At least: 600 requests in atomics": "it is 0"}),
    ("24_slot_by_cas.cu", [("atomicCAS(&keys[s], kFree, column);", "keys[s];\n    if (found == kFree) keys[s] = column;")], {"No race": "a race: .*24_slot_by_cas"}),
    ("24_slot_by_cas.cu", [("(static_cast<unsigned>(column) / 4 * 4 + slots - 1) % slots;", "0;")], {"At most: 800 requests in atomics": r"\.cu:\d+: \d\d,\d+"}),
]

# And answers that lose their points for a reason of the exercise itself, which names what is wrong.
WRONG = [
    ("02_accumulator.cpp", [("touched_.clear();", "touched_.clear();\n    for (auto& sum : sums_) sum = 0;")],
     r"places of the accumulator are looked up \d+ times for \d+ products"),
    ("02_accumulator.cpp", [("touched_.clear();", "touched_.clear();\n    sums_ = micro::Places<T>(static_cast<std::size_t>(b.cols));")],
     r"02_accumulator\.cpp:\d+:\d+: error: use of deleted function"),
    ("04_displacements.cpp", [("this->bounds_[r] * width", "this->bounds_[r] * width * 8")], r"heap-buffer-overflow, 04_displacements\.cpp:\d+ in "),
    ("05_overlap.cpp", [("    multiply_by(now);\n    MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);", "    MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);\n    multiply_by(now);")],
     "a block is multiplied while no other is on its way"),
    ("05_overlap.cpp", [("    MPI_Waitall(2, requests_, MPI_STATUSES_IGNORE);\n", "")], "nobody has waited for its messages"),
    ("07_tail.cu", [("(rows + kBlock - 1) / kBlock;", "rows / kBlock + 1;")], "64 rows have 3 blocks, and the last has none of them"),
    ("08_grid_stride.cu", [("threads = gridDim.x * blockDim.x", "threads = 32")], r"f64: element \(32, 0\) is .*, expected"),
    ("23_warp_leader.cu", [("__ballot_sync(kAllLanes, wants);", "0;\n  if (wants) return take(counter, 1);")], r"take\(\) is called 256 times by 8 warps"),
    ("24_slot_by_cas.cu", [("s = (s + 1) % slots", "++s")], r"heap-buffer-overflow, 24_slot_by_cas\.cu:\d+ in "),
]


def place(answer):
    """The directory of the exercise, and its file."""
    stage, _, name = answer[0].rpartition("/")
    return stage or "micro", name


def key(number):
    """What STAGES_EXERCISE is for a wasteful answer that was built."""
    return f"answer/{number}/{place(WASTEFUL[number])[1]}"


def text(answer):
    stage, name = place(answer)
    made = exercises.made(ROOT / stage / "exercises" / name, True)
    for old, new in answer[1]:
        if old not in made:
            exercises.fail(f"{stage}/{name}: its solution has no '{old}'; see tests/grade/answers.py")
        made = made.replace(old, new)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="DIRECTORY")
    options = parser.parse_args()
    for number, answer in enumerate(WASTEFUL):
        if options.output is None:
            print(key(number), "/".join(place(answer)))
            continue
        path = options.output / key(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
