"""Results as text."""
import scoring


def line(row):
    """One case, one line."""
    score = row["rules"]["default"]
    if row["planted"] is None:
        return "%d false alarms in %.0f s, %d rounds%s" % (score["false_alarms"], row["healthy_s"], row["rounds"],
                                                            "" if score["false_alarms"] == 0 else ": " + score["said"])
    text = "right" if scoring.is_right(score) else "WRONG (%s)" % ", ".join(wrong_aspects(score))
    if "paper" in row["rules"]:
        paper = row["rules"]["paper"]
        text += ", paper %s" % ("right" if paper["class_right"] and paper["rank_right"] else "wrong")
    return "%s, suspected %s, confirmed %s, %.0f s: %s" % (text, seconds(score["suspect_ms"]), seconds(score["confirm_ms"]), row["seconds"], score["said"])


def wrong_aspects(score):
    wrong = ["not detected"] if not score["detected"] else [aspect.split("_")[0] for aspect in scoring.ASPECTS if not score[aspect]]
    return wrong + (["%d other incidents" % score["false_alarms"]] if score["false_alarms"] else [])


def seconds(milliseconds):
    return "-" if milliseconds is None else "%.1f s" % (milliseconds / 1e3)


def summary(rules):
    """Both rule sets side by side."""
    head = ("class", "cases")
    columns = ("precision", "recall", "f1", "suspect_ms", "confirm_ms", "locate_ms")
    rows = [head + tuple("%s %s" % (name, column.replace("_ms", "")) for name in rules for column in columns)]
    for fault_class in scoring.CLASSES:
        sums = [rules[name]["classes"][fault_class] for name in rules]
        rows.append((fault_class, str(sums[0]["cases"])) + tuple(
            seconds(each[column]) if column.endswith("_ms") else "-" if each[column] is None else "%.3f" % each[column]
            for each in sums for column in columns))
    text = aligned(rows) + "\n\n"
    fields = ("cases", "detected", "class_right", "rank_right", "component_right", "other_incidents", "false_alarms", "benign_minutes")
    return text + aligned([("rules",) + fields] + [(name,) + tuple(str(rules[name][field]) for field in fields) for name in rules])


def aligned(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
