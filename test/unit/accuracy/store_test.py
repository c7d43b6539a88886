import os
import tempfile
import unittest
from collections import namedtuple

import paths  # noqa: F401
from store import Store, version_of_files, write_json

Case = namedtuple("Case", "id plan")
CASE = Case("matrix/H1/Ring", {"ranks": 8})


class StoreTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_case_that_is_done_is_found_again(self):
        Store(self.folder, "v1").put(CASE, {"a": "1"}, {"right": True})
        self.assertEqual(Store(self.folder, "v1").get(CASE, {"a": "1"}), {"right": True})

    def test_another_build_setting_or_plan_is_another_case(self):
        Store(self.folder, "v1").put(CASE, {"a": "1"}, {})
        self.assertIsNone(Store(self.folder, "v2").get(CASE, {"a": "1"}))
        self.assertIsNone(Store(self.folder, "v1").get(CASE, {"a": "2"}))
        self.assertIsNone(Store(self.folder, "v1").get(CASE._replace(plan={"ranks": 16}), {"a": "1"}))

    def test_a_damaged_result_is_no_result(self):
        store = Store(self.folder, "v1")
        store.put(CASE, {}, {})
        with open(os.path.join(self.folder, "matrix-H1-Ring.json"), "w") as file:
            file.write("{\"key\"")
        self.assertIsNone(store.get(CASE, {}))

    def test_the_version_follows_the_contents_of_the_files(self):
        path = os.path.join(self.folder, "ccld")
        write_json(path, 1)
        before = version_of_files([path])
        self.assertEqual(version_of_files([path]), before)
        write_json(path, 2)
        self.assertNotEqual(version_of_files([path]), before)


if __name__ == "__main__":
    unittest.main()
