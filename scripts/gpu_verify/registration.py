"""How CUDA takes the memory of frames here, and whether the product has made the best of it.

A frame is a file in memory that is registered with CUDA. Sandboxes refuse that: then frames are memory of CUDA's own, which nobody outside the
process sees, and the parts that read frames are skipped.
"""
from .layout import ON
from .part import Result
from .ranks_process import RanksProcess

RANKS = 2
FILE, ALLOCATED = "registered file", "CUDA's memory"


def judge(answer):
    """(Result, why frames have no file or None)"""
    ways = {way["name"]: way for way in answer["ways"]}
    problems, refused = [], None
    file_works = ways[FILE]["works"]
    if not file_works:
        refused = ways[FILE]["refusal"]
        if not ways[ALLOCATED]["works"]:
            problems.append("no communicator can be watched here: %s; %s" % (refused, ways[ALLOCATED]["refusal"]))
    if file_works and answer["frames"] != RANKS:
        problems.append("CUDA takes files, and %d of %d ranks have a frame with one" % (answer["frames"], RANKS))
    summary = "; ".join("%s: %s" % (name, "taken in %.0f us" % way["taken_us"] if way["works"] else "refused (%s)" % way["refusal"])
                        for name, way in ways.items())
    return Result({"ways": answer["ways"], "frames_with_file": answer["frames"]}, problems, [], summary), refused


def run(context):
    with RanksProcess(context.layout, ON, RANKS, context.frames, {}, context.allowance) as process:
        answer = process.ask("registration")
    result, context.layout.frames_refused = judge(answer)
    return result
