"""The keys that WebDataset gives, by worker and epoch: a JSON list of set-ups comes on standard
input, a list of lists of keys for each goes to standard output."""

import json
import os
import sys
import warnings

sys.modules["torch"] = None  # webdataset would import it for seconds, and does without
import webdataset as wds  # noqa: E402

warnings.simplefilter("ignore")


def samples(given):
    """The set-up's dataset, as a user would write it."""
    urls, seed = given["urls"], given["seed"]
    if given["kind"] == "webdataset":
        data = wds.WebDataset(
            urls,
            shardshuffle=given["shard_shuffle"],
            detshuffle=given["detshuffle"],
            nodesplitter=wds.split_by_node,
            workersplitter=wds.split_by_worker,
            seed=seed,
        )
    elif given["kind"] == "simple":
        data = wds.DataPipeline(
            wds.SimpleShardList(urls, seed=seed),
            wds.split_by_node,
            wds.split_by_worker,
            wds.tarfile_to_samples(),
        )
    else:
        data = wds.DataPipeline(
            wds.ResampledShards(urls, seed=seed, deterministic=True), wds.tarfile_to_samples()
        )
    if given["buffer"] > 0:
        if given["detshuffle"]:
            data.append(wds.detshuffle(given["buffer"], given["initial"], seed=seed))
        else:
            data.append(wds.shuffle(given["buffer"], initial=given["initial"], seed=seed))
    if given["slice"] > 0:
        data.append(wds.slice(given["slice"]))
    if given["repeat"] > 0:
        data = data.repeat(given["repeat"])
    if given["epoch"] > 0:
        data = data.with_epoch(given["epoch"])
    return data


answers = []
for given in json.load(sys.stdin):
    for name in ("RANK", "WORLD_SIZE", "WORKER", "NUM_WORKERS"):
        os.environ[name] = str(given[name])
    data = samples(given)
    answers.append([[sample["__key__"] for sample in data] for _ in range(given["epochs"])])
json.dump(answers, sys.stdout)
