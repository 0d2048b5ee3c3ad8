"""A rank fails, in every way and each rank in turn: all ranks must end soon, with one message and an exit code
other than 0."""

import argparse
import subprocess
import sys
import time

RANKS = 3
LIMIT = 20  # seconds; a run that doesn't fail takes 1
WAYS = {  # how -> what must be said, once; None: the launcher says it in its own words
    "error": "planted: bad input on rank",
    "throw": "planted: exception on rank",
    "memory": "bad_alloc",
    "kill": None,
    "segv": None,
    "exit": None,
    "all": "planted: bad input on rank",
}
WAYS_WITH_GPUS = {"error": WAYS["error"], "device": "cudaMemsetAsync", "kill": None}


def run(mpirun, program, rank, how, ways, *more):
    """The complaint about one run, or None."""
    start = time.monotonic()
    process = subprocess.Popen(
        [mpirun, "-n", str(RANKS), program, "failure", str(rank), how, *more],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        _, errors = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        return f"still running after {LIMIT} s"
    if process.returncode == 0:
        return "exit code 0"
    said = [line for line in errors.splitlines() if line.startswith("mpi_tests:")]
    words = ways[how]
    if words is not None and (len(said) != 1 or words not in said[0]):
        return f"{len(said)} messages: {said}"
    if how in ("error", "throw", "memory", "device") and f"rank {rank}" not in said[0]:
        return f"the message does not name rank {rank}: {said[0]}"
    if any("the run went on" in line for line in said):
        return said[0]
    print(f"rank {rank}, {how} {' '.join(more)}: exit code {process.returncode} after {time.monotonic() - start:.1f} s", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mpirun", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--gpus", action="store_true", help="fail in an entry for GPUs")
    arguments = parser.parse_args()
    bad = 0
    ways, more = (WAYS_WITH_GPUS, ["gpu"]) if arguments.gpus else (WAYS, [])
    for how in ways:
        for rank in range(1 if how == "all" else RANKS):
            complaint = run(arguments.mpirun, arguments.program, rank, how, ways, *more)
            if complaint:
                print(f"rank {rank}, {how}: {complaint}")
                bad += 1
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
