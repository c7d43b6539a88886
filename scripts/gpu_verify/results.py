"""What a run leaves, as few files for whoever takes them away from the machine: the report, its text, all logs in one archive."""
import os
import tarfile

REPORT, TEXT, LOGS = "report.json", "report.txt", "logs.tar.xz"


def put(folder, text, logs):
    """The report is there already: it is written after every part."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, TEXT), "w") as file:
        file.write(text + "\n")
    with tarfile.open(os.path.join(folder, LOGS), "w:xz") as archive:
        archive.add(logs, "logs", filter=lambda entry: None if entry.name.endswith((".sock", REPORT)) else entry)
