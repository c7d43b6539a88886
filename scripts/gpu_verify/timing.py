"""Times of several variants in turns: one process each, all alive, asked one after the other."""
from .errors import OutOfTime, VerifyError
from .ranks_process import RanksProcess, algorithm_environment
from .samples import overhead, size_text, summary_us

RANKS = 2
ANSWER_TIMEOUT_S = 20.0
TURNS_MIN = 3  # fewer are no measurement
SEVERAL_PROCESSES_MAX = 64 << 10  # above, a turn takes too long to be made by several


def work_of(size, launch, few):
    """(operations that follow one another, samples in a turn); `few`: whether it works is the question, not how fast"""
    if few:
        return 2, 2
    if size <= 64 << 10:
        return (100 if launch == "call" else 50), 3  # the probe numbers the replays of 4096 recorded kernels
    return (20, 3) if size <= 16 << 20 else (3, 2)


class Kind:
    """What is timed: an AllReduce with one algorithm and protocol."""

    def __init__(self, algorithm, protocol, launch="call"):
        self.algorithm, self.protocol, self.launch = algorithm, protocol, launch

    def title(self, size):
        text = "AllReduce %s %s %s" % (self.algorithm, self.protocol, size_text(size))
        return text + (" in a graph" if self.launch == "graph" else "")


class Turns:
    """Processes of all variants with one algorithm and protocol."""

    def __init__(self, context, variants, algorithm, protocol):
        self._context = context
        self._processes = []
        try:
            for variant in variants:
                self._processes.append(RanksProcess(context.layout, variant, RANKS, context.frames,
                                                    algorithm_environment(algorithm, protocol), context.allowance))
            for process in self._processes:
                process.wait_ready()
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        for process in self._processes:
            process.end()

    def measure(self, kind, size, turns):
        """{variant: samples of each turn}. Every variant comes first equally often."""
        operations, samples = work_of(size, kind.launch, self._context.quick or not self._context.on_gpu)
        command = "time AllReduce %d %d %d %s" % (size, operations, samples, kind.launch)
        result = {process.variant: [] for process in self._processes}
        for turn in range(turns):
            if self._context.allowance.is_over():
                break
            answers = {}
            for offset in range(len(self._processes)):
                process = self._processes[(turn + offset) % len(self._processes)]
                answer = process.ask(command, ANSWER_TIMEOUT_S)
                if "left_out" in answer:
                    raise VerifyError(answer["left_out"])
                if answer["ran_as"] not in ("", "%s %s" % (kind.algorithm, kind.protocol)):
                    raise VerifyError("%s was wanted, and NCCL ran %s" % (kind.title(size), answer["ran_as"]))
                answers[process.variant] = answer["us"]
            for variant, samples_us in answers.items():
                result[variant].append(samples_us)
        return result


def row_of(kind, size, base, turns):
    """The report's row: times of all variants and what they cost beyond the base."""
    return {
        "title": kind.title(size), "algorithm": kind.algorithm, "protocol": kind.protocol, "launch": kind.launch, "bytes": size,
        "turns": len(turns[base]), "time": {variant: summary_us(samples) for variant, samples in turns.items()},
        "overhead": {variant: overhead(turns[base], samples) for variant, samples in turns.items() if variant != base},
    }


def _measure_several(context, variants, combination, wanted, turns, processes):
    """Yields (place in `wanted`, samples) as they come; with more than one process for each variant, small sizes come from each of them."""
    for number in range(processes):
        places = [place for place, (_, size) in enumerate(wanted) if number == 0 or size <= SEVERAL_PROCESSES_MAX]
        if not places or context.allowance.is_over():
            return
        with Turns(context, variants, *combination) as running:
            for place in places:
                kind, size = wanted[place]
                share = processes if size <= SEVERAL_PROCESSES_MAX else 1
                yield place, running.measure(kind, size, -(-turns // share))


def measure_rows(context, variants, base, combinations, sizes_of, launches_of, turns, processes=1):
    """(rows, problems, names of what there was no time for). What goes wrong with one algorithm and protocol leaves the others alone.

    `processes`: how many, one after the other, measure small sizes for each variant. Where memory comes to lie differs between them, and with it the time of
    a small operation by up to 6 %."""
    rows, problems, not_run = [], [], []
    for algorithm, protocol in combinations:
        wanted = [(Kind(algorithm, protocol, launch), size) for size in sizes_of(protocol) for launch in launches_of(size)]
        if context.allowance.is_over():
            not_run.append("%s %s" % (algorithm, protocol))
            continue
        context.show("%s %s" % (algorithm, protocol))
        measured = [{variant: [] for variant in variants} for _ in wanted]
        broken = False
        try:
            for place, samples in _measure_several(context, variants, (algorithm, protocol), wanted, turns, processes):
                for variant, these in samples.items():
                    measured[place][variant] += these
        except OutOfTime:
            pass  # what there is counts
        except VerifyError as error:
            problems.append(str(error))
            broken = True
        for (kind, size), samples in zip(wanted, measured):
            if len(samples[base]) >= min(turns, TURNS_MIN):
                rows.append(row_of(kind, size, base, samples))
            elif not broken:
                not_run.append(kind.title(size))
    return rows, problems, not_run
