"""The report: a JSON file and a table."""
import datetime
import json
import os
import platform
import subprocess

from .layout import ROOT, bundle_facts, in_bundle
from .part import FAILED, MISSED, NOT_RUN
from .samples import CANNOT_BE_TOLD, size_text

GOOD = ("passed", "skipped")


def card_facts():
    """What nvidia-smi says of the first GPU; {} where there is none."""
    fields = ("name", "driver_version", "memory.total", "clocks.max.sm", "power.limit")
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=" + ",".join(fields), "--format=csv,noheader"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [value.strip() for value in done.stdout.splitlines()[0].split(",")] if done.returncode == 0 and done.stdout.strip() else []
    return dict(zip(("card", "driver", "memory", "clock_max", "power_limit"), values))


def commit():
    facts = bundle_facts()
    if "commit" in facts:
        return facts["commit"]
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or "unknown"


def facts(device, quick, layout):
    result = {"device": device, "quick": quick, "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
              "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}}
    if device == "cuda":
        result["gpu"] = card_facts()
    else:
        result["note"] = "made on the CPU device: it proves that the checks run, and says nothing about a GPU"
    if layout.pristine == layout.build and not in_bundle():
        result["upstream"] = "not built here: our library stands in for it"
    return result


def add_environment(facts_of_run, result):
    """What the first part found out; `seen`: what a process that uses the device says of it."""
    seen = result.facts.get("seen")
    facts_of_run["transport"] = result.facts.get("transport", "unknown")
    if seen and "gpu" in facts_of_run and not facts_of_run["gpu"]:
        version = seen["cuda_driver"]
        facts_of_run["gpu"] = {"card": seen["device"], "driver": "for CUDA %d.%d" % (version // 1000, version % 1000 // 10)}


def all_good(results):
    return all(result.status in GOOD for _, result, _ in results)


def document(facts_of_run, results, seconds):
    """`results`: [(part, Result, seconds)]"""
    return dict(facts_of_run, seconds=round(seconds, 1), all_good=all_good(results),
                parts={name: dict(result.report(), seconds=round(took_s, 1)) for name, result, took_s in results})


def write(path, document_):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        json.dump(document_, file, indent=1)
        file.write("\n")
    os.rename(path + ".part", path)


def table(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def parts_table(results):
    return table([("part", "", "seconds", "")] + [(name, result.status, "%.0f" % took_s, result.summary) for name, result, took_s in results])


def percent_text(figures):
    return "%+.2f (%+.2f to %+.2f)" % tuple(100 * figures[name] for name in ("median", "quarter", "three_quarters"))


def timing_table(rows):
    """Of cost or fences."""
    variants = list(rows[0]["overhead"])
    base = next(variant for variant in rows[0]["time"] if variant not in variants)
    head = ("protocol", "algorithm", "size", "launched by", base + " us") + tuple("%s %% (middle half)" % variant for variant in variants)
    lines = [head]
    for row in rows:
        cells = [row["protocol"], row["algorithm"], size_text(row["bytes"]), row["launch"], "%.1f" % row["time"][base]["median_us"]]
        for variant in variants:
            cells.append(percent_text(row["overhead"][variant]) + (", " + CANNOT_BE_TOLD if row.get("outcome", {}).get(variant) == CANNOT_BE_TOLD else ""))
        lines.append(tuple(cells))
    return table(lines)


def trials_table(rows):
    """A line for each library: not all are measured in each row."""
    return table([("operation", "library", "us", "% (middle half)")] + [
        (row["title"], variant, "%.1f" % row["time"][variant]["median_us"], percent_text(figures)) for row in rows for variant, figures in row["overhead"].items()])


def faults_table(rows):
    lines = [("planted", "", "verdict", "right")]
    for row in rows:
        verdict = row.get("verdict")
        lines.append((row["planted"]["class"], row["planted"]["detail"], verdict["class"] if verdict else "none" if row["was_run"] else "not run",
                      "yes" if row["right"] else "NO: %s" % row["why_wrong"]))
    return table(lines)


def some_of(names, shown=6):
    """The file has all of them."""
    more = len(names) - shown
    return ", ".join(names[:shown]) + (" and %d more" % more if more > 0 else "")


def text(facts_of_run, results):
    """Everything a person wants to see at the end."""
    blocks = []
    for name, result, _ in results:
        if name in ("cost", "fences"):
            blocks += ["%s\n%s" % (title, timing_table(result.facts[rows])) for rows, title in (("rows", name), ("places", "where the cost is"))
                       if result.facts.get(rows)]
        if name == "trials" and result.facts.get("rows"):
            blocks.append("%s\n%s" % (name, trials_table(result.facts["rows"])))
        if name == "faults" and result.facts.get("runs"):
            blocks.append("%s\n%s" % (name, faults_table(result.facts["runs"])))
    gpu = facts_of_run.get("gpu", {})
    where = "%s, driver %s" % (gpu.get("card", "unknown card"), gpu.get("driver", "unknown")) if facts_of_run["device"] == "cuda" else "the CPU device"
    blocks.append("%s, commit %s\n%s" % (where, facts_of_run["commit"], parts_table(results)))
    problems = ["%s: %s" % (name, line) for name, result, _ in results if result.status in (MISSED, FAILED) for line in result.problems]
    problems += ["%s: no time for %s" % (name, some_of(result.not_run)) for name, result, _ in results if result.not_run]
    problems += ["%s: %s" % (name, result.summary) for name, result, _ in results if result.status == NOT_RUN and not result.not_run]
    if problems:
        blocks.append("\n".join(problems))
    return "\n\n".join(blocks)
