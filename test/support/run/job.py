"""One run: a decision service and the ranks it watches, on two fake nodes. Leaves nothing behind, however it ends.

    with Job(build, plan, folder) as job:
        job.wait_ready()
        planted_at = inject.plant(plan, job)

`folder` gets the logs, the verdicts and the plan's files; it stays. Everything else is gone after the with statement: processes (stopped ones
too), namespaces, segments in /dev/shm, and the scratch folder.
"""
import contextlib
import os
import shutil
import signal
import tempfile

from . import network
from .board import Board
from .errors import Interrupted, RunError
from .processes import Child, SharedMemory, wait_while_moving
from .service import Service

# NCCL on few cores: two channels and little buffer, so that a message of a megabyte has many steps; no shortcut between processes.
ENVIRONMENT = {
    "NCCL_MIN_NCHANNELS": "2", "NCCL_MAX_NCHANNELS": "2", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128",
    "NCCL_BUFFSIZE": "131072", "NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1", "NCCL_PAT_ENABLE": "0", "NCCL_DEBUG": "WARN",
    "NCCL_PROBE_ENABLE": "1", "NCCL_SET_THREAD_NAME": "1",
}
INHERITED_PREFIXES_REMOVED = ("NCCL_", "CCLD_")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_end_the_run():
    """Turns SIGINT, SIGTERM and SIGHUP into Interrupted, once: a second one cannot cut the cleaning up short."""
    def interrupt(number, _):
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)
    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Job:
    """`recording`: where the service records what arrives; None: nowhere. `history`: it keeps incidents and their recordings, in
    `folder`. `http_port`: of its query API; 0: any. In a namespace of its own always any."""

    def __init__(self, build, plan, folder, recording=None, history=False, http_port=0):
        self.recording, self.history, self.http_port = recording, history, http_port
        self.build, self.plan, self.folder = build, plan, folder
        self.children = []
        self.control_files = []
        self.stopped_in_kernel = {}  # by rank, of processes that were stopped within an operation
        self.board = self.fault_file = self.network = self.service = None
        self._shared_memory = SharedMemory()
        self._may_end = set()
        # A job with a fault never ends by itself. 3: wrong results, which the board counts.
        self._fine_statuses = () if plan.faults else (0, 3)
        self._stack = None

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _start(self):
        self._make_folder()
        scratch = tempfile.mkdtemp(prefix="ccld-run-")
        self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        if self.plan.namespaces:
            self.network = self._stack.enter_context(network.TwoNodes(self.folder))

        self._start_service()
        self.fault_file = os.path.join(scratch, "faults.json")
        board_path = os.path.join(scratch, "board")
        self.board = Board(board_path, self.plan.rank_count)
        self.board.hold_round(self.plan.held_round())
        self._stack.callback(self.board.close)
        self._stack.callback(self._end_ranks)
        self._kept = self._stack.enter_context(contextlib.ExitStack())
        for rank in range(self.plan.rank_count):
            self._start_rank(rank, scratch, board_path)

    def _make_folder(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)

    def _start_service(self):
        listen, wrap = "tcp://127.0.0.1:*", lambda command: command
        if self.network:
            # A namespace of its own: all its addresses are wires that we made.
            listen, wrap = "tcp://0.0.0.0:5555", lambda command: self.network.command("service", command)
        self.service = Service(self.build, self.folder, self.plan.settings, listen, wrap, self.recording,
                               history=self.history, http_port=0 if self.network else self.http_port)
        self._stack.callback(self.service.end)
        self.service.wait_ready()

    def _start_rank(self, rank, scratch, board_path):
        node = rank * 2 // self.plan.rank_count
        control = os.path.join(scratch, "device-%d" % rank)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_PREFIXES_REMOVED)}
        environment.update(ENVIRONMENT)
        environment.update({
            "LD_LIBRARY_PATH": "%s:%s" % (self.build.library_folder, self.build.plugin_folder),
            "NCCL_HOSTID": "node%d" % node,
            "NCCL_SOCKET_IFNAME": network.DATA_INTERFACE if self.network else "lo",
            "NCCL_PROBE_ENDPOINT": "tcp://%s:%d" % (network.SERVICE_ADDRESSES[node] if self.network else "127.0.0.1", self.service.port),
            "NCCL_PROBE_JOB": self.plan.name,
            "CCLD_CPU_DEVICE_CONTROL": control,
        })
        environment.update(self.plan.environment)
        environment.update(self.more_environment(node))
        command = [self.build.workload, "--rank", str(rank), "--ranks", str(self.plan.rank_count), "--id-file", os.path.join(scratch, "id"),
                   "--status", board_path, "--faults", self.fault_file] + self.plan.workload_arguments()
        command = self.in_place(node, command)
        self.control_files.append(control)
        self.children.append(Child("rank %d" % rank, command, os.path.join(self.folder, "rank-%d.log" % rank), environment))

    def more_environment(self, node):
        """Variables of the ranks of a node that take the place of the plan's."""
        del node
        return {}

    def in_place(self, node, command):
        """A rank's command as it is started on this node; the process id stays that of the command."""
        return self.network.command(node, command) if self.network else command

    def wait_ready(self, timeout_s=60.0):
        """Returns when every rank has its communicator."""
        def all_ready():
            self.check_alive()
            return all(slot.state in ("ready", "finished") for slot in self.board.slots())
        if not wait_while_moving(all_ready, self._position, timeout_s):
            late = [str(rank) for rank, slot in enumerate(self.board.slots()) if slot.state != "ready"]
            raise RunError("for %.0f s no communicator on rank %s; see %s" % (timeout_s, ", ".join(late), self.folder))
        self.remember_shared_memory()

    def _position(self):
        """How far every rank is: while it changes, the job gets on."""
        return [(slot.state, slot.completed_round) for slot in self.board.slots()]

    def check_alive(self):
        """Raises when something ended that should run."""
        self.service.check_alive()
        for rank, child in enumerate(self.children):
            status = child.exit_status()
            if status is not None and status not in self._fine_statuses and rank not in self._may_end:
                raise RunError("rank %d ended with status %d: %s" % (rank, status, " ".join(child.last_lines(2))))

    def control_prefix(self, rank):
        """What goes before a command in the rank's control file: nothing, since each process has one GPU and a file of its own."""
        del rank
        return ""

    def keep(self, thing):
        """Something that a fault needs while it lasts; its end() is called before the ranks end."""
        self._kept.callback(thing.end)
        return thing

    def expect_end(self, rank):
        """The plan is about to end this rank, and the others may fail in consequence."""
        self._may_end.update(range(self.plan.rank_count))
        del rank

    def wait_finished(self, timeout_s):
        """Returns when every rank has ended by itself with success; raises when none has got on for so long."""
        def all_over():
            self.check_alive()
            self.service.verdicts.poll()
            return all(child.exit_status() is not None for child in self.children)
        if not wait_while_moving(all_over, self._position, timeout_s, 0.02):
            raise RunError("the ranks did not finish, and did not get on for %.0f s; see %s" % (timeout_s, self.folder))

    def remember_shared_memory(self):
        self._shared_memory.watch(child.pid for child in self.children)

    def shared_memory_left_behind(self):
        return self._shared_memory.left_behind()

    def _end_ranks(self):
        try:
            self.remember_shared_memory()
            for child in self.children:
                child.signal(signal.SIGKILL)
            for child in self.children:
                child.end()
        finally:
            # Also when a signal arrives while a run that was over is being cleared away.
            for child in self.children:
                child.end()
            self._shared_memory.remove()
