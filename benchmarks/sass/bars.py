"""What our code may add to upstream's, and why so much."""
from instruction import ATOMIC, BLOCK_FENCE, FENCE, GLOBAL_LOAD, GLOBAL_STORE, KINDS, LOCAL_LOAD, LOCAL_STORE, SHARED_LOAD, SHARED_STORE
from ways import BEGIN, END

INSTRUCTIONS = "instructions"
# Registers are given away differently as soon as anything changes: these move in both directions. check-ptxas has bars for spills.
FREE = (LOCAL_LOAD, LOCAL_STORE, SHARED_LOAD, SHARED_STORE)

# How many more than on the shortest way of upstream's. A kind that is not listed: none. Instructions have a margin of
# about a tenth, because nvcc's choices move them by as much.
WAYS_MORE = {
    # Tests whether the thread has a role and the block is watched. One store is made without a branch, under a
    # predicate (sm_100, LL).
    (BEGIN, "any"): {INSTRUCTIONS: 55, GLOBAL_STORE: 1},
    # One thread, and not the one that sends first: clock, two rows (the second for a replay of a graph, whose counter
    # is the one load).
    (BEGIN, "notes the begin"): {INSTRUCTIONS: 95, GLOBAL_LOAD: 1, GLOBAL_STORE: 4},
    (END, "any, not watched"): {INSTRUCTIONS: 4},
    # One atomic operation with its fence, by one thread of the warp.
    (END, "arrives"): {INSTRUCTIONS: 24, ATOMIC: 1, BLOCK_FENCE: 1},
    # And the totals in device memory, and one row in the frame.
    (END, "arrives last"): {INSTRUCTIONS: 62, ATOMIC: 1, BLOCK_FENCE: 1, GLOBAL_STORE: 2},
}

# In one place where the hook stands: all of its code, of which a thread runs a part. A kind that is not listed: none.
HOOKS_MOST = {
    "ccld_batch_loaded": {INSTRUCTIONS: 8},
    "ccld_channel_loaded": {INSTRUCTIONS: 8},
    "ccld_kernel_begins": {INSTRUCTIONS: 50, GLOBAL_LOAD: 1, GLOBAL_STORE: 3},
    "ccld_kernel_ends": {INSTRUCTIONS: 8},
    "ccld_lane_opens": {INSTRUCTIONS: 47, GLOBAL_STORE: 1, ATOMIC: 1},
    # nvcc makes two of one place now and then.
    "ccld_lane_posts": {INSTRUCTIONS: 30, GLOBAL_STORE: 1.25},
    "ccld_lane_posts_ll": {INSTRUCTIONS: 30, GLOBAL_STORE: 1.25},
    "ccld_lane_closes": {INSTRUCTIONS: 14, ATOMIC: 1},
    "ccld_lane_closes_ll": {INSTRUCTIONS: 12, ATOMIC: 1},
    # Only in a loop that has polled 64 times in vain, and its stores after 0.1 ms.
    "ccld_lane_waits": {INSTRUCTIONS: 46, GLOBAL_STORE: 4},
}


def _over(counts, most, at):
    for kind in (INSTRUCTIONS,) + KINDS:
        allowed = most.get(kind, 0)
        if kind not in FREE and counts[kind] > allowed:
            yield "%s: %g %s more than upstream, at most %g are allowed" % (at, round(counts[kind], 2), kind, allowed)


def missed(rows, hooks):
    """One line for each number beyond its bar."""
    lines = []
    shortest = {(row["architecture"], row["case"], row["part"]): row["pristine"] for row in rows if row["pristine"]}
    for row in rows:
        most = WAYS_MORE.get((row["part"], row["thread"]))
        if most is None:
            continue
        at = "%s %s, %s, %s" % (row["architecture"], row["case"], row["part"], row["thread"])
        pristine = shortest.get((row["architecture"], row["case"], row["part"]))
        if row["patched"] is None or pristine is None:
            lines.append(at + ": no such way was found")
        else:
            lines += _over({kind: row["patched"][kind] - pristine[kind] for kind in pristine}, most, at)
    for row in hooks:
        at = "%s %s, %s" % (row["architecture"], row["case"], row["hook"])
        if row["hook"] in HOOKS_MOST:
            lines += _over(row, HOOKS_MOST[row["hook"]], at)
        else:
            lines.append(at + ": a hook without a bar")
    return lines
