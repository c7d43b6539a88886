"""The two training jobs. What computes and communicates is an engine: torch's (torch_engine.py), or one that needs neither torch nor
a GPU and behaves like it (stand_in_engine.py).

An engine has rank, rank_count, group(name, ranks), and
    all_reduce(group, slot, count), broadcast(group, slot, count), all_gather(group, slot, count)    slot: a buffer, by its name
    exchange(group, send_slot, send_to, receive_slot, receive_from)    ranks of the job, or None
    fill(slot, value), holds(slot, value), synchronize()
    data_parallel(group) -> a function that does one training step with its gradient reduction
    stage(group) -> an object with forward(micro_batch), backward(micro_batch), reduce_and_step()
"""
import time

from .micro_batch_file import MicroBatchFile

METRICS = 1 << 14  # elements of what a real job would reduce for its log


class StopsCalling(Exception):
    """A planted fault: this rank lives on, but calls nothing any more."""


class DataParallelJob:
    """All ranks hold the same model; gradients and then metrics are reduced over all."""

    name = "ddp"

    def __init__(self, engine, micro_batches_file=None):
        self._engine = engine
        self._group = engine.group("DP", list(range(engine.rank_count)))
        self._step = engine.data_parallel(self._group)

    def iterate(self, round_number, changes):
        """One iteration; False: its result is wrong."""
        if changes.stops():
            raise StopsCalling()
        time.sleep(changes.delay_s())
        self._step()
        return reduce_metrics(self._engine, self._group, round_number, changes)


class PipelineJob:
    """Two stages, each held by half of the ranks: rank r is in stage r % 2 of replica r // 2. Micro-batches go forward, then their gradients
    backward; then gradients are reduced among the replicas of a stage. How many micro-batches a replica takes may change while the job runs."""

    name = "pipeline"
    stages = 2
    micro_batches = 4

    def __init__(self, engine, micro_batches_file=None):
        self._engine = engine
        stages, rank = self.stages, engine.rank
        replicas = engine.rank_count // stages
        pipelines = [engine.group("PP%d" % replica, [replica * stages + stage for stage in range(stages)]) for replica in range(replicas)]
        data = [engine.group("DP%d" % stage, [replica * stages + stage for replica in range(replicas)]) for stage in range(stages)]
        self._replica, self._stage = rank // stages, rank % stages
        self._counts = MicroBatchFile(micro_batches_file, replicas)
        self._pipeline, self._data = pipelines[self._replica], data[self._stage]
        self._previous = rank - 1 if self._stage > 0 else None
        self._next = rank + 1 if self._stage < stages - 1 else None
        self._part = engine.stage(self._data)

    def iterate(self, round_number, changes):
        self._counts.refresh()
        micro_batches = self._counts.count(round_number, self._replica, self.micro_batches)
        for micro_batch in range(micro_batches):
            if self._previous is not None:
                self._engine.exchange(self._pipeline, None, None, "activation in", self._previous)
            self._compute(self._part.forward, micro_batch, changes)
            if changes.stops():
                raise StopsCalling()
            if self._next is not None:
                self._engine.exchange(self._pipeline, "activation out", self._next, None, None)
        for micro_batch in reversed(range(micro_batches)):
            if self._next is not None:
                self._engine.exchange(self._pipeline, None, None, "gradient in", self._next)
            self._compute(self._part.backward, micro_batch, changes)
            if self._previous is not None:
                self._engine.exchange(self._pipeline, "gradient out", self._previous, None, None)
        self._part.reduce_and_step()
        return reduce_metrics(self._engine, self._data, round_number, changes)

    @staticmethod
    def _compute(compute, micro_batch, changes):
        time.sleep(changes.delay_s())
        compute(micro_batch)


JOBS = {job.name: job for job in (DataParallelJob, PipelineJob)}


def reduce_metrics(engine, group, round_number, changes):
    """Reduces numbers whose sum is known, and says whether it is right."""
    each = 1 + round_number % 5
    engine.fill("metrics", each * (1 + engine.rank))
    operation = {"allreduce": engine.all_reduce, "broadcast": engine.broadcast, "allgather": engine.all_gather}[changes.operation("allreduce")]
    operation(group, "metrics", changes.count(METRICS))
    engine.synchronize()
    return engine.holds("metrics", each * sum(1 + rank for rank in group.ranks))
