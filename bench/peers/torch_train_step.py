"""PyTorch's images per second for one of train_step's cases: torch_train_step.py CASE BATCH PRECISION
THREADS SECONDS. channels_last; bf16 by autocast or as a bf16 model, whichever is faster. LeNet and
the U-Net are those that the parity tests compare with ours."""
import pathlib
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "trainer"))
import torch_models  # noqa: E402


def make(case):
    name, size = case.split("/")
    channels = 1 if name == "lenet" else 3
    classes = 10 if name.startswith(("lenet", "resnet18")) else 1000
    model = torch_models.make(name, channels, classes)
    model.eval()(torch.zeros(1, channels, int(size), int(size)))  # lazy layers find their sizes
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.5
    return model, channels, int(size), classes


def loss_of(outputs, labels):
    if isinstance(outputs, tuple):
        return sum(F.mse_loss(part.float(), torch.zeros(part.shape)) for part in outputs)
    return F.cross_entropy(outputs.float(), labels)


def rate(case, batch, autocast, whole, seconds):
    model, channels, size, classes = make(case)
    dtype = torch.bfloat16 if whole else torch.float32
    model = model.to(memory_format=torch.channels_last).to(dtype).train()
    images = torch.randn(batch, channels, size, size, dtype=dtype)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    # As in cpu_clock.h: with one thread, waiting for a core does not count.
    now = time.process_time if torch.get_num_threads() == 1 else time.time
    best, begin, steps = 1e9, now(), 0
    while steps < 3 or now() - begin < seconds:
        start = now()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            outputs = model(images)
        loss_of(outputs, labels).backward()
        optimizer.step()
        if steps > 0:
            best = min(best, now() - start)
        steps += 1
    return batch / best


def main():
    case, batch, precision, threads, seconds = sys.argv[1:6]
    torch.set_num_threads(int(threads))
    batch, seconds = int(batch), float(seconds)
    if precision == "fp32":
        print(rate(case, batch, False, False, seconds))
    else:
        print(max(rate(case, batch, True, False, seconds / 2),
                  rate(case, batch, False, True, seconds / 2)))


if __name__ == "__main__":
    main()
