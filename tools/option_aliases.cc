#include "tools/option_aliases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace millrace::tools {
namespace {

constexpr OptionAlias kAliases[] = {
    {"max-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"n-epochs", "epochs"},
    {"learning-rate", "optimizer.lr"},
    {"base-lr", "optimizer.lr"},
    {"lr-scheduler", "schedule"},
    {"scheduler", "schedule"},
    {"batch", "batch-size"},
    {"bs", "batch-size"},
    {"train-batch-size", "batch-size"},
    {"global-batch", "batch-size", "/all"},
    {"global-batch-size", "batch-size", "/all"},
    {"passes", "repeat"},
    {"skip", "skip-samples"},
    {"take", "take-samples"},
    {"max-train-samples", "take-samples"},
    {"val-skip", "val-skip-samples"},
    {"val-take", "val-take-samples"},
    {"max-eval-samples", "val-take-samples"},
    {"max-eval-samples", "take-samples"},
    {"drop-last", "uneven", {}, "drop"},
    {"partial", "uneven", {}, "partial"},
    {"per-device-train-batch-size", "batch-size"},
    {"workers", "streams", "/process"},
    {"num-workers", "streams", "/process"},
    {"num-threads", "threads"},
    {"jobs", "threads"},
    {"prefetch-factor", "prefetch"},
    {"num-devices", "devices"},
    {"reduce", "allreduce"},
    {"peer-timeout", "heartbeat-timeout"},
    {"device", "accelerator"},
    {"dtype", "precision"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"wd", "optimizer.weight-decay"},
    {"accumulate-grad-batches", "accumulate"},
    {"gradient-accumulation-steps", "accumulate"},
    {"gradient-clip-val", "clip-norm"},
    {"max-grad-norm", "clip-norm"},
    {"ema-decay", "ema"},
    {"arch", "model"},
    {"num-classes", "classes"},
    {"image-size", "size"},
    {"img-size", "size"},
    {"resolution", "size"},
    {"random-seed", "seed"},
    {"manual-seed", "seed"},
    {"train-data", "train"},
    {"val-data", "val"},
    {"valid", "val"},
    {"validation", "val"},
    {"shuffle", "order.buffer"},
    {"shuffle", "shuffle-seed"},  // where there is no buffer, whose length it is
    {"shuffle-buffer", "order.buffer"},
    {"buffer-size", "order.buffer"},
    {"shuffle-initial", "order.initial"},
    {"max-faults", "on-fault.max"},
    {"world-size", "processes"},
    {"world", "processes"},
    {"rank", "process"},
    {"log-every-n-steps", "log-steps"},
    {"print-freq", "log-steps"},
    {"num-sanity-val-steps", "sanity-val-steps"},
    {"default-root-dir", "run-dir"},
    {"output-dir", "run-dir"},
    {"log-dir", "run-dir"},
    {"weights", "init"},
    {"ckpt-path", "resume"},
    {"ckpt-path", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"resume-from-checkpoint", "resume"},
    {"accept-changed-data", "allow-changed-data"},
    {"mask-colors", "task.colors"},
    {"label", "class"},
    {"out", "output"},
    {"most-pictures", "max-pictures"},
    {"epsilon", "optimizer.eps"},
    {"no-decay-norms-biases",
     "optimizer.groups",
     {},
     "[group(parameters=norms-biases, rate=1, weight_decay=0)]",
     "none"},
    {"schedule-unit", "schedule.by"},
    {"step-epochs", "schedule.every"},
    {"step-size", "schedule.every"},
    {"min-lr", "schedule.to"},
    {"eta-min", "schedule.to"},
    {"warmup-epochs", "schedule.warmup", "ep", {}, "0"},
    {"warmup-steps", "schedule.warmup", "steps", {}, "0"},
};

constexpr GoneOption kGone[] = {
    {"reduce-precision", "--allreduce tree-bf16 sends gradients in bf16"},
    {"divisor", "--schedule 'step(30, gamma=0.2)' has the factor, 1 / divisor, as gamma"},
};

constexpr WordAlias kWords[] = {
    {"schedule", "ConstantLR", "constant"},
    {"schedule", "none", "constant"},
    {"schedule", "StepLR", "step"},
    {"schedule", "MultiStepLR", "multi-step"},
    {"schedule", "ExponentialLR", "exponential"},
    {"schedule", "OneCycleLR", "one-cycle"},
    {"schedule", "CosineAnnealingLR", "cosine"},
    {"schedule", "CosineAnnealing", "cosine"},
    {"schedule",
     "warmup-exponential",
     {},
     "warmup-exponential is step with a warm-up, every --step-epochs, by a gamma of 1 / --divisor: "
     "such as 'step(30, gamma=0.2, warmup=0.9ep)'"},
    {"order", "millrace", "shuffled"},
    {"task", "classification", "classify"},
    {"task", "segmentation", "segment"},
};

/// `name` itself, or the field that it is short for.
std::string own_among(std::span<const std::string> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end() ? name : field_among(names, name);
}

bool is_nothing(const std::string* value) { return value == nullptr || *value == "0"; }

/// It warmed up unless told otherwise.
void join_divisor(const SavedValue& saved) {
  std::string* schedule = saved("schedule");
  const std::string* divisor = saved("divisor");
  if (schedule == nullptr || divisor == nullptr || *schedule != "warmup-exponential") return;
  *schedule = "step";
  if (std::string* gamma = saved("gamma"))
    *gamma = fmt::format("{}", 1.0 / std::strtod(divisor->c_str(), nullptr));
  std::string* epochs = saved("warmup-epochs");
  if (epochs != nullptr && is_nothing(epochs) && is_nothing(saved("warmup-steps"))) *epochs = "0.9";
}

void join_reduce(const SavedValue& saved) {
  const std::string* precision = saved("reduce-precision");
  std::string* reduce = saved("reduce");
  if (precision != nullptr && reduce != nullptr && *precision == "bf16") *reduce = "tree-bf16";
}

}  // namespace

std::span<const OptionAlias> option_aliases() { return kAliases; }
std::span<const GoneOption> gone_options() { return kGone; }
std::span<const WordAlias> word_aliases() { return kWords; }

std::string KnownOption::valued(const std::string& given) const {
  const bool is_number =
      !given.empty() &&
      (std::isdigit(static_cast<unsigned char>(given.back())) != 0 || given.back() == '.');
  return is_number ? given + unit : given;
}

std::string field_among(std::span<const std::string> names, std::string_view field) {
  const auto found = std::ranges::find_if(names, [&](const std::string& name) {
    const std::size_t dot = name.find('.');
    return dot != std::string::npos && std::string_view(name).substr(dot + 1) == field;
  });
  return found == names.end() ? std::string() : *found;
}

KnownOption known_among(std::span<const std::string> names, const std::string& name) {
  if (std::string own = own_among(names, name); !own.empty()) return {.name = std::move(own)};
  for (const OptionAlias& alias : kAliases) {
    if (alias.name != name) continue;
    if (std::string own = own_among(names, std::string(alias.known)); !own.empty())
      return {.name = std::move(own),
              .unit = std::string(alias.unit),
              .value = std::string(alias.value),
              .off = std::string(alias.off)};
  }
  return {};
}

void join_values(const SavedValue& saved) {
  join_divisor(saved);
  join_reduce(saved);
}

}  // namespace millrace::tools
