"""Attacks that once did harm, and the tests that hold what was done against each. A test that is renamed or goes is missed here."""
import os
import re
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))

# attack: (file, what the test is called)
ATTACKS = {
    "a batch of a rank beyond the size that its communicator turns out to have": (
        ("test/unit/decision/hostile_test.cc", "A rank beyond the size that its communicator turns out to have is forgotten"),
        ("test/unit/decision/hostile_test.cc", "Whatever a stranger says, the analysis survives it")),
    "claims of 262,144 ranks": (
        ("test/unit/decision/hostile_test.cc", "Claims of huge communicators cost what was said, not what was claimed"),
        ("test/unit/server/memory_guard_test.cc", "A stranger who announces without end is bounded, and the fault of a real job is found")),
    "HTTP: chunked bodies, endless headers, a hundred ranges, clients at 20 bytes a second": (
        ("test/unit/server/http_api_test.cc", "Bodies are bounded, whatever a client says of their length"),
        ("test/unit/server/http_api_test.cc", "Headers are bounded in length and number"),
        ("test/unit/server/http_api_test.cc", "A part of a document that is made for each answer is not sent"),
        ("test/unit/server/http_api_test.cc", "Slow clients do not keep others out"),
        ("benchmarks/strangers/crowd.py", "SlowClients")),
    "full of communicators, and new ones all the time": (
        ("test/unit/decision/room_test.cc", "Claims go before communicators of which all ranks have spoken"),
        ("test/unit/decision/room_test.cc", "Who has most of them loses his own first")),
    "80 messages that confirm H1 and H2 against any job": (
        ("test/integration/admission/telemetry_test.cc", "Who may speak for one job confirms nothing against another"),),
    "sample times from the far future": (
        ("test/unit/decision/full_tables_test.cc", "Snapshots from the far future, said in the name of a process, hide no fault of it"),
        ("test/unit/decision/processes_test.cc", "A clock that jumps ahead is believed once it stays there, and not for what others say in between"),
        ("test/unit/server/batch_decoder_test.cc", "A sample that was taken after its batch was sent is refused")),
    "POST /v1/tune by any user, under a foreign Host and Origin": (
        ("test/unit/server/http_api_test.cc", "A request to change something comes under our name and from no other page"),
        ("test/unit/server/http_api_test.cc", "With tokens every question needs one with the right role, and a change too, from this host as from others")),
    "more idle connections than descriptors": (
        ("test/unit/server/connection_room_test.cc", "Without room those go that say nothing, first of who has most of them, and who speaks stays"),
        ("benchmarks/strangers/check_strangers.py", "too few descriptors")),
    "full tables of processes, ranks, initializations and incidents": (
        ("test/unit/decision/full_tables_test.cc", "A full table of processes takes in a new one, and lets go of those of the machine that has most"),
        ("test/unit/decision/full_tables_test.cc", "A communicator finds room for its ranks where one machine has claimed all"),
        ("test/unit/decision/full_tables_test.cc", "An initialization that never ends is found where a stranger has announced more than there is room for"),
        ("test/unit/decision/full_tables_test.cc", "Where all incidents are open, one of the job that has most is forgotten")),
    "thousands of frames of another user": (
        ("test/unit/probe/siblings_test.cc", "a frame of another user is no sibling's, whatever it says"),),
    "hostile files before `ccld frames` of root": (
        ("test/unit/frames_command/frames_command_test.cc", "a link with the name of a frame is one line, and nothing behind it is read"),
        ("test/unit/frames_command/frames_command_test.cc", "a file that is truncated between two looks is one line"),
        ("test/unit/frames_command/frames_command_test.cc", "names that move the cursor, turn text or are no UTF-8 come out harmless, as text and as JSON"),
        ("test/unit/frames_command/frames_command_test.cc", "a file of another user than its living process is not believed")),
    "a live frame that is truncated": (
        ("test/unit/schemas/bus_guard_test.cc", "Memory of a file that is truncated becomes zeros, and can be written"),
        ("test/unit/probe/agent_test.cc", "a communicator whose file is truncated goes on counting, and says no more than that it is there"),
        ("test/integration/adversity/adversity_test.cc", "truncated")),
    "words at odd addresses; a library that cannot be opened for its static TLS": (
        ("test/fuzz/replay_main.cc", "int main"),
        ("test/integration/adversity/opened_and_closed.cc", "RTLD_LOCAL")),
}


class AttacksTest(unittest.TestCase):
    def test_each_has_a_test(self):
        for attack, tests in ATTACKS.items():
            for path, name in tests:
                with self.subTest(attack=attack, test=name):
                    with open(os.path.join(ROOT, path)) as file:
                        text = re.sub(r'"\s*\n\s*"', "", file.read())
                    self.assertTrue(name in text, path)


if __name__ == "__main__":
    unittest.main()
