"""Wall time of operations: all variants at once, one after the other for each sample, so that they meet the same machine."""
import os
import select
import statistics
import subprocess

from parts import BenchError

ANSWER_TIMEOUT_S = 120


class Process:
    """One variant's benchmark process, which waits for the next command."""

    def __init__(self, program, variant, environment, ranks):
        self.variant = variant
        self._process = subprocess.Popen([program, str(ranks)], env=variant.environment(environment), stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self):
        ready, _, _ = select.select([self._process.stdout], [], [], ANSWER_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self._process.kill()
            errors = self._process.stderr.read().strip().splitlines()
            raise BenchError("timing, %s: %s" % (self.variant.name, errors[-1] if errors else "no answer"))
        return line

    def times_ns(self, operation, size, count):
        self._process.stdin.write("%s %d %d\n" % (operation, size, count))
        self._process.stdin.flush()
        return [int(word) for word in self.answer().split()]

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()


def measure(program, variants, environment, ranks, sizes, operation, rounds, show):
    """{size: {variant name: [nanoseconds of each operation]}}"""
    processes = []
    try:
        for variant in variants:
            processes.append(Process(program, variant, environment, ranks))
        for process in processes:
            process.answer()  # ready
        samples = {size: {variant.name: [] for variant in variants} for size in sizes}
        for size in sizes:
            count = operations_per_sample(size)
            for turn in range(rounds):
                # Every variant comes first equally often.
                for i in range(len(processes)):
                    process = processes[(turn + i) % len(processes)]
                    samples[size][process.variant.name] += process.times_ns(operation, size, count)
            show("%d bytes timed" % size)
        return samples
    finally:
        for process in processes:
            process.end()


def operations_per_sample(size):
    return 20 if size <= 1 << 16 else 5


def summary(samples):
    """Median and the middle half of the samples, in microseconds."""
    quarters = statistics.quantiles(samples, n=4)
    return {"median_us": round(statistics.median(samples) / 1e3, 1),
            "quarter_us": round(quarters[0] / 1e3, 1), "three_quarters_us": round(quarters[2] / 1e3, 1), "samples": len(samples)}


def load_average():
    return os.getloadavg()[0]
