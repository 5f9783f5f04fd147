"""Recomputes what `eval --details` says from what `predict --json --top CLASSES` does, and fails where they differ.

    evaluation_oracle.py DETAILS PREDICTIONS SAMPLES      SAMPLES: `ls --json` of the shards, with their classes
"""

import json
import math
import sys

BINS = 15


def fail(message):
    raise SystemExit(f"details: {message}")


def near(what, found, wanted):
    if not math.isclose(found, wanted, rel_tol=1e-5, abs_tol=1e-7):
        fail(f"{what}: {found}, not {wanted}")


def main():
    details = json.load(open(sys.argv[1]))
    classes = {one["key"]: one["class"] for one in map(json.loads, open(sys.argv[3]))}
    scored = []
    for one in map(json.loads, open(sys.argv[2])):
        shares = {each["class"]: each["probability"] for each in one["top"]}
        scored.append((one["key"], classes[one["key"]], one["class"], one["probability"],
                       -math.log(shares[classes[one["key"]]])))
    size = details["classes"]
    confusion = [[0] * size for _ in range(size)]
    bins = [[0, 0, 0.0] for _ in range(BINS)]
    for _, label, predicted, probability, _ in scored:
        confusion[label][predicted] += 1
        of = bins[min(max(math.ceil(probability * BINS) - 1, 0), BINS - 1)]
        of[0] += 1
        of[1] += label == predicted
        of[2] += probability
    if details["confusion"] != confusion:
        fail(f"confusion {details['confusion']}, not {confusion}")
    if details["samples"] != len(scored) or details["right"] != sum(confusion[k][k] for k in range(size)):
        fail("numbers of samples")
    for k, wanted, predicted, both in details["by_class"]:
        if [wanted, predicted, both] != [sum(confusion[k]), sum(row[k] for row in confusion), confusion[k][k]]:
            fail(f"class {k}")
    for found, (count, right, total) in zip(details["calibration"]["bins"], bins, strict=True):
        if found[:2] != [count, right]:
            fail(f"bin {found}, not {count, right}")
        near("mean", found[2], total / count if count else 0)
    near("calibration error", details["calibration"]["error"],
         sum(abs(right - total) for _, right, total in bins) / len(scored))
    worst = sorted(scored, key=lambda one: -one[4])[:24]
    mistakes = sorted((one for one in scored if one[1] != one[2]), key=lambda one: -one[3])[:24]
    for name, wanted in (("worst", worst), ("mistakes", mistakes)):
        if len(details[name]) != len(wanted):
            fail(f"{name}: {len(details[name])}, not {len(wanted)}")
        for found, one in zip(details[name], wanted, strict=True):
            near(name, found["loss"] if name == "worst" else found["probability"],
                 one[4] if name == "worst" else one[3])
    by_key = {one[0]: one for one in scored}
    for found in details["worst"] + details["mistakes"]:
        _, label, predicted, probability, loss = by_key[found["key"]]
        if [found["label"], found["predicted"]] != [label, predicted]:
            fail(f"{found['key']}: {found}")
        near("probability", found["probability"], probability)
        near("loss", found["loss"], loss)
    print("agrees")


main()
