"""Which action is to be done about an incident, and what was done already. Pure, but for the file of Memory."""
import datetime
import json
import os

# By cost. Waiting is nothing to do.
ACTIONS = ("micro_batches", "placement", "restart")
REMEMBERED_MAX = 1000


class StateError(Exception):
    """One line about the file of Memory."""


def seconds_of(time_text):
    return datetime.datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()


def choose(incident, allowed, now_s, memory):
    """The cheapest strategy that is allowed, possible, due and not done yet; None: there is none."""
    mitigation = incident.get("mitigation")
    if incident["state"] != "confirmed" or not mitigation:
        return None
    for strategy in mitigation["strategies"]:
        due = strategy["due_time"]
        if (strategy["action"] in allowed and strategy["possible"] and due is not None and seconds_of(due) <= now_s
                and not memory.has(incident, strategy)):
            return strategy
    return None


def request_of(incident, strategy):
    """What the hook reads."""
    return {"action": strategy["action"], "strategy": strategy, "incident": incident}


class Memory:
    """`path`: None, or a file of JSON. StateError: it cannot be read or written, or is another file."""

    def __init__(self, path):
        self.path = path
        self.done = []
        self.said = set()
        if path is None:
            return
        if os.path.exists(path):
            try:
                with open(path, encoding="utf-8") as file:
                    self.done = json.load(file)["done"]
                for entry in self.done:
                    if not isinstance(entry["key"], str) or not isinstance(entry["time_s"], (int, float)):
                        raise ValueError("an entry is not of this program")
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise StateError("'%s' is not a file of what was done: %s" % (path, error)) from error
        self._write(self.done)  # it is known now, not once there is something to do, that it can be written

    @staticmethod
    def key(incident, strategy):
        return "%s/%d/%s" % (incident.get("run"), incident["incident"], strategy["action"])

    def has(self, incident, strategy):
        return any(entry["key"] == self.key(incident, strategy) for entry in self.done)

    def begin(self, incident, strategy, now_s):
        """If this cannot be written down, nothing was begun."""
        done = (self.done + [{"key": self.key(incident, strategy), "time_s": now_s, "title": incident["title"]}])[-REMEMBERED_MAX:]
        self._write(done)
        self.done = done

    def _write(self, done):
        if self.path is None:
            return
        try:
            with open(self.path + ".new", "w", encoding="utf-8") as file:
                json.dump({"done": done}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(self.path + ".new", self.path)
        except OSError as error:
            raise StateError("'%s' cannot be written: %s" % (self.path, error.strerror)) from error

    def wait_s(self, now_s, at_most, within_s):
        """Until one more may be done."""
        newest = sorted(entry["time_s"] for entry in self.done if entry["time_s"] > now_s - within_s)
        return 0 if len(newest) < at_most else newest[-at_most] + within_s - now_s

    def note_dry(self, incident, strategy):
        """False: that was said."""
        return self._note("dry", incident, strategy)

    def note_wait(self, incident, strategy):
        return self._note("wait", incident, strategy)

    def _note(self, what, incident, strategy):
        entry = (what, self.key(incident, strategy))
        if entry in self.said:
            return False
        self.said.add(entry)
        return True
