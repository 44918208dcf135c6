"""Two builds of the CPU backend side by side: prefill and decode speed of one sequence, in tokens per second of CPU time.

    git worktree add /tmp/before COMMIT
    cargo build --release -p sluicegate-backend --example generate                                   # and the same in /tmp/before
    python3 benches/compare.py /tmp/before/target/release/examples/generate target/release/examples/generate \
        models/SmolLM2-135M-Instruct backend/tests/golden/tiny-dsv4-tools/nvfp4

Every run is a process of its own on one core; the two builds take turns, so that what else the machine does meets both. The time
of a run that only loads and takes one step is subtracted. A model that the first build can't open is measured in the second alone.
"""

import argparse
import os
import statistics
import subprocess

PREFILL, DECODE, PROMPT = 400, 128, 8


def cpu_seconds(binary, model, prompt, tokens):
    """CPU time of a whole run, or none if it failed."""
    ids = [str((t * 7) % 2000 + 20) for t in range(prompt)]
    child = subprocess.Popen(
        [binary, model, str(tokens), *ids],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}),
    )
    _, status, used = os.wait4(child.pid, 0)
    return used.ru_utime + used.ru_stime if status == 0 else None


def one_round(binaries, model):
    """For each build: seconds of a prompt, and of a text."""
    shapes = {"prompt": (PREFILL, 1), "one": (1, 1), "text": (PROMPT, DECODE + 1), "begin": (PROMPT, 1)}
    used = {(b, s): cpu_seconds(b, model, *shape) for s, shape in shapes.items() for b in binaries}
    out = []
    for b in binaries:
        whole, one, text, begin = (used[b, s] for s in shapes)
        out.append(None if None in (whole, one, text, begin) else (whole - one, text - begin))
    return out


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("before")
    arguments.add_argument("after")
    arguments.add_argument("models", nargs="+")
    arguments.add_argument("--rounds", type=int, default=7)
    given = arguments.parse_args()
    print("| model | | before | after | after / before |\n| --- | --- | --- | --- | --- |")
    for model in given.models:
        rounds = [one_round([given.before, given.after], model) for _ in range(given.rounds)]
        for i, (what, tokens) in enumerate([("prefill", PREFILL - 1), ("decode", DECODE)]):
            before, after = ([r[side][i] for r in rounds if r[side]] for side in (0, 1))
            speed = lambda seconds: f"{tokens / statistics.median(seconds):.0f}" if seconds else "not opened"
            both = [r[0][i] / r[1][i] for r in rounds if r[0] and r[1]]
            ratio = f"{statistics.median(both):.3f} ({min(both):.3f} to {max(both):.3f})" if both else ""
            print(f"| {'/'.join(model.rstrip('/').split('/')[-2:])} | {what} | {speed(before)} | {speed(after)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
