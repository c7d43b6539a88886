"""`ccld serve` under watch: its memory, descriptors, threads and processor time, and whether /healthz answers."""
import http.client
import json
import os
import resource
import subprocess
import threading
import time
import urllib.parse

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.2
READY_S = 30.0


class ServiceError(Exception):
    pass


class WatchedService:
    def __init__(self, program, folder, memory_max, descriptors_max, settings):
        self._ready_path = os.path.join(folder, "ready.json")
        self.log_path = os.path.join(folder, "service.log")
        self.verdict_path = os.path.join(folder, "verdicts.jsonl")
        command = [program, "serve", "--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0", "--no-history", "--memory-max", memory_max,
                   "--verdicts", self.verdict_path, "--ready-file", self._ready_path]
        for name, value in settings.items():
            command += ["--set", "%s=%s" % (name, value)]

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, descriptors_max), descriptors_max))
        with open(self.log_path, "w") as log:
            self._child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=limit)
        self._proc = "/proc/%d/" % self._child.pid
        self._wait_ready()
        self._end = threading.Event()
        self._lock = threading.Lock()
        self._samples = []
        self._threads = [threading.Thread(target=self._sample, daemon=True), threading.Thread(target=self._ask, daemon=True)]
        for thread in self._threads:
            thread.start()

    def _wait_ready(self):
        until = time.monotonic() + READY_S
        while not os.path.exists(self._ready_path):
            if self._child.poll() is not None or time.monotonic() > until:
                raise ServiceError("the service did not start: " + self.log().strip())
            time.sleep(0.01)
        with open(self._ready_path) as file:
            ready = json.load(file)
        self.endpoint = ready["telemetry"]
        self.port = int(self.endpoint.rsplit(":", 1)[1])
        self._http = urllib.parse.urlsplit(ready["http"])
        self.http_address = (self._http.hostname, self._http.port)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()

    def get(self, path, timeout_s=10.0):
        connection = http.client.HTTPConnection(*self.http_address, timeout=timeout_s)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self):
        return json.loads(self.get("/v1/status")[1])

    # What the kernel says of it now.
    def memory_bytes(self):
        with open(self._proc + "statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def descriptors(self):
        return len(os.listdir(self._proc + "fd"))

    def threads(self):
        return len(os.listdir(self._proc + "task"))

    def cpu_s(self):
        with open(self._proc + "stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def _sample(self):
        while not self._end.wait(SAMPLE_S):
            try:
                sample = {"memory_bytes": self.memory_bytes()}
            except OSError:
                return
            with self._lock:
                self._samples.append(sample)

    def _ask(self):
        while not self._end.wait(SAMPLE_S):
            begun = time.monotonic()
            try:
                well = self.get("/healthz", 5.0)[0] == 200
            except OSError:
                well = False
            with self._lock:
                self._samples.append({"health_s": time.monotonic() - begun, "well": well})

    def take_samples(self):
        """Since this was last asked: the most memory, and how /healthz answered."""
        with self._lock:
            samples, self._samples = self._samples, []
        times = sorted(s["health_s"] for s in samples if "health_s" in s)
        return {"memory_bytes_max": max((s["memory_bytes"] for s in samples if "memory_bytes" in s), default=0),
                "health_asked": len(times),
                "health_not_well": sum(not s["well"] for s in samples if "well" in s),
                "health_ms_p50": round(1e3 * times[len(times) // 2], 1) if times else None,
                "health_ms_p99": round(1e3 * times[min(len(times) - 1, len(times) * 99 // 100)], 1) if times else None}

    def alive(self):
        return self._child.poll() is None

    def end(self):
        self._end.set()
        self._child.terminate()
        try:
            return self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()
