"""Computes with torch, communicates with torch.distributed over NCCL. The only file here that imports torch."""
import datetime
import os
from collections import namedtuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .jobs import METRICS
from .names import name_config

Group = namedtuple("Group", "name ranks handle")

WIDTH, DEPTH, BATCH = 512, 4, 64
# Far beyond what a demo waits for its verdict.
TIMEOUT = datetime.timedelta(minutes=30)


def model(device):
    layers = []
    for _ in range(DEPTH):
        layers += [torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU()]
    return torch.nn.Sequential(*layers).to(device)


class TorchEngine:
    def __init__(self, lazy=False):
        self.rank, self.rank_count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
        torch.cuda.set_device(self.device)
        torch.manual_seed(1)
        options, self.can_name = self._options("default_pg")
        # A device given here makes torch set up its communicators at once and split groups off from the first one.
        bound = {} if lazy else {"device_id": self.device}
        dist.init_process_group("nccl", timeout=TIMEOUT, pg_options=options, **bound)
        self._world = Group("default_pg", list(range(self.rank_count)), dist.group.WORLD)
        self._slots = {"metrics": torch.zeros(METRICS, device=self.device)}
        self._warm_up(self._world)

    @staticmethod
    def _options(name):
        options = dist.ProcessGroupNCCL.Options()
        return options, name_config(options.config, name)

    def _warm_up(self, group):
        """The first use of a group may set it up, for which all of its ranks are needed."""
        dist.all_reduce(torch.ones(1, device=self.device), group=group.handle)
        torch.cuda.synchronize()

    def group(self, name, ranks):
        options, _ = self._options(name)
        handle = dist.new_group(ranks, timeout=TIMEOUT, backend="nccl", pg_options=options, group_desc=name)
        group = Group(name, ranks, handle)
        if self.rank in ranks:
            self._warm_up(group)
        return group

    # ---- buffers
    def _slot(self, name):
        if name not in self._slots:
            self._slots[name] = torch.zeros(BATCH, WIDTH, device=self.device)
        return self._slots[name]

    def fill(self, slot, value):
        self._slot(slot).fill_(float(value))

    def holds(self, slot, value):
        return bool((self._slot(slot) == float(value)).all().item())

    # ---- operations
    def all_reduce(self, group, slot, count):
        dist.all_reduce(self._slot(slot).view(-1)[:count], group=group.handle)

    def broadcast(self, group, slot, count):
        dist.broadcast(self._slot(slot).view(-1)[:count], src=group.ranks[0], group=group.handle)

    def all_gather(self, group, slot, count):
        part = count // len(group.ranks)
        mine = self._slot(slot).view(-1)[:part].clone()
        dist.all_gather_into_tensor(self._slot(slot).view(-1)[:part * len(group.ranks)], mine, group=group.handle)

    def exchange(self, group, send_slot, send_to, receive_slot, receive_from):
        operations = []
        if send_to is not None:
            operations.append(dist.P2POp(dist.isend, self._slot(send_slot), send_to, group=group.handle))
        if receive_from is not None:
            operations.append(dist.P2POp(dist.irecv, self._slot(receive_slot), receive_from, group=group.handle))
        for work in dist.batch_isend_irecv(operations):
            work.wait()

    def synchronize(self):
        torch.cuda.synchronize()

    # ---- training
    def data_parallel(self, group):
        wrapped = DistributedDataParallel(model(self.device), device_ids=[self.device.index], process_group=group.handle, bucket_cap_mb=1)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=1e-3)

        def step():
            batch = torch.randn(BATCH, WIDTH, device=self.device)
            wrapped(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return step

    def stage(self, group):
        return TorchStage(self, group)

    def close(self):
        torch.cuda.synchronize()
        dist.destroy_process_group()


class TorchStage:
    """One stage of a pipeline: keeps what each micro-batch needs for its way back."""

    def __init__(self, engine, group):
        self._engine, self._group = engine, group
        self._model = model(engine.device)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=1e-3)
        self._kept = {}

    def forward(self, micro_batch):
        # The first stage's input slot is never received into: it stands for the data.
        entered = self._engine._slot("activation in").clone().requires_grad_()
        left = self._model(entered)
        self._engine._slot("activation out").copy_(left.detach())
        self._kept[micro_batch] = entered, left

    def backward(self, micro_batch):
        entered, left = self._kept.pop(micro_batch)
        left.backward(self._engine._slot("gradient in"))
        self._engine._slot("gradient out").copy_(entered.grad)

    def reduce_and_step(self):
        gradients = [parameter.grad for parameter in self._model.parameters()]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat, group=self._group.handle)
        flat /= len(self._group.ranks)
        begin = 0
        for gradient in gradients:
            gradient.copy_(flat[begin:begin + gradient.numel()].view_as(gradient))
            begin += gradient.numel()
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def facts():
    """What the launcher wants to know before it starts ranks."""
    config = dist.ProcessGroupNCCL.Options().config
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "devices": torch.cuda.device_count(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())), "names": name_config(config, "facts")}
