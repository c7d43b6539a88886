"""A job of real NCCL beside a service to which things happen: as run.job.Job, in a place of its own, and without a service of its own."""
import glob
import os

from run.errors import RunError
from run.job import Job

NAMES = ("ccld-a.test", "ccld-b.test")


class ChaosJob(Job):
    """The service is started before and ends after; `variables` go to the ranks, `preload` to those of its node."""

    def __init__(self, build, plan, folder, place, service, variables):
        super().__init__(build, plan, folder)
        self.place, self.service, self.variables = place, service, variables
        self._fine_statuses = (0, 3)

    def _start_service(self):
        pass

    def _make_folder(self):
        pass  # the place is in it

    def more_environment(self, node):
        return dict(self.variables, **({"CCLD_TEST_CLOCK_JUMP": self.clock_file("node%d" % node)} if "LD_PRELOAD" in self.variables else {}))

    def clock_file(self, whose):
        return os.path.join(self.place.folder, "clock-" + whose)

    def in_place(self, node, command):
        return self.place.command(command)

    def check_alive(self):
        for rank, child in enumerate(self.children):
            status = child.exit_status()
            if status is not None and status not in self._fine_statuses and rank not in self._may_end:
                raise RunError("rank %d ended with status %d: %s" % (rank, status, " ".join(child.last_lines(2))))

    def remember_shared_memory(self):
        pass  # /dev/shm is the run's own

    def shared_memory_left_behind(self):
        return sorted(os.listdir(self.place.path("/dev/shm")))

    def pids(self):
        return [child.pid for child in self.children]

    def frames_of(self, rank):
        return sorted(glob.glob(os.path.join(self.place.path(self.place.frames), "ccld-%d-*.frame" % self.children[rank].pid)))

    def rounds_done(self):
        return min(slot.completed_round for slot in self.board.slots())
