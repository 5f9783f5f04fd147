"""Runs a StableHLO module by JAX's CPU compiler: run_program.py FOLDER STEPS

FOLDER has program.mlir, program.json (trainer/hlo/program.h) and arguments.bin: the donated arguments of each
replica, then, for each step and replica, all others; each in the program's order. Writes results.bin: for each
step and replica the results that replace no argument, as float32; then each replica's others.
"""

import json
import os
import sys

folder, steps = sys.argv[1], int(sys.argv[2])
with open(f"{folder}/program.json") as file:
    manifest = json.load(file)
replicas = manifest["replicas"]
flags = f"--xla_force_host_platform_device_count={replicas}"
if "MILLRACE_LONG" not in os.environ:  # a few steps of small programs: LLVM's passes would take most of their time
    flags += " --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
os.environ["XLA_FLAGS"] = flags

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jaxlib import xla_client  # noqa: E402

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "i64": np.int64, "ui8": np.uint8,
         "ui32": np.uint32, "ui64": np.uint64, "i1": np.bool_}
client = xla_client.make_cpu_client()
devices = client.local_devices()[:replicas]
options = xla_client.CompileOptions()
options.num_replicas = replicas
options.executable_build_options.num_replicas = replicas
with open(f"{folder}/program.mlir") as file:
    program = client.compile(file.read(), options)

arguments, results = manifest["arguments"], manifest["results"]
given = open(f"{folder}/arguments.bin", "rb")
donated = [i for i, one in enumerate(arguments) if "donated_to" in one]
others = [i for i in range(len(arguments)) if i not in donated]
kept = [arguments[i]["donated_to"] for i in donated]


def read(indices):
    """Of each argument, a buffer on each device."""
    by_device = []
    for device in devices:
        row = []
        for i in indices:
            dtype, shape = TYPES[arguments[i]["type"]], arguments[i]["shape"]
            data = given.read(int(np.prod(shape)) * np.dtype(dtype).itemsize)
            row.append(client.buffer_from_pyval(np.frombuffer(data, dtype).reshape(shape).copy(), device))
        by_device.append(row)
    return [list(column) for column in zip(*by_device)]


def write(file, outputs, indices):
    for r in range(replicas):
        for i in indices:
            np.asarray(outputs[i][r]).astype(np.float32).tofile(file)


state = read(donated)
with open(f"{folder}/results.bin", "wb") as file:
    outputs = None
    for _ in range(steps):
        fresh = read(others)
        inputs = [None] * len(arguments)
        for place, i in enumerate(donated):
            inputs[i] = state[place]
        for place, i in enumerate(others):
            inputs[i] = fresh[place]
        outputs = program.execute_sharded_on_local_devices(inputs)
        for i in donated:
            assert all(one.is_deleted() for one in inputs[i]), f"{arguments[i]['name']} was copied, not replaced"
        state = [outputs[i] for i in kept]
        write(file, outputs, [i for i in range(len(results)) if i not in kept])
    write(file, outputs, kept)
assert not given.read(1), "arguments are left over"
