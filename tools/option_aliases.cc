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
    {"sched", "schedule"},
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
    {"amp-dtype", "precision"},
    {"amp", "precision", {}, "bf16"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"opt-betas", "optimizer.betas"},
    {"wd", "optimizer.weight-decay"},
    {"accumulate-grad-batches", "accumulate"},
    {"gradient-accumulation-steps", "accumulate"},
    {"grad-accum-steps", "accumulate"},
    {"gradient-clip-val", "clip-norm"},
    {"max-grad-norm", "clip-norm"},
    {"clip-grad-norm", "clip-norm"},
    {"clip-grad", "clip-norm"},
    {"ema-decay", "ema"},
    {"model-ema-decay", "ema"},
    {"use-deterministic-algorithms", "deterministic"},
    {"mixup-alpha", "mixup"},
    {"cutmix-alpha", "cutmix"},
    {"smoothing", "task.label-smoothing"},
    {"bce-loss", "task.loss", {}, "bce"},
    {"bce-target-thresh", "task.threshold"},
    {"arch", "model"},
    {"drop", "model.dropout"},
    {"drop-path", "model.stochastic-depth"},
    {"num-classes", "classes"},
    {"image-size", "size"},
    {"img-size", "size"},
    {"resolution", "size"},
    {"train-crop-size", "size"},
    {"val-crop-size", "val-size"},
    {"val-resize-size", "eval-resize"},
    {"in-chans", "channels"},
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
    {"ra-reps", "order.copies"},
    {"aug-repeats", "order.copies"},
    {"max-faults", "on-fault.max"},
    {"world-size", "processes"},
    {"world", "processes"},
    {"rank", "process"},
    {"log-every-n-steps", "log-steps"},
    {"print-freq", "log-steps"},
    {"log-interval", "log-steps"},
    {"num-sanity-val-steps", "sanity-val-steps"},
    {"default-root-dir", "run-dir"},
    {"output-dir", "run-dir"},
    {"log-dir", "run-dir"},
    {"output", "run-dir"},
    {"weights", "init"},
    {"initial-checkpoint", "init"},
    {"ckpt-path", "resume"},
    {"ckpt-path", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"checkpoint-hist", "save-top-k"},
    {"resume-from-checkpoint", "resume"},
    {"accept-changed-data", "allow-changed-data"},
    {"mask-colors", "task.colors"},
    {"label", "class"},
    {"out", "output"},
    {"most-pictures", "max-pictures"},
    {"epsilon", "optimizer.eps"},
    {"opt-eps", "optimizer.eps"},
    {"no-decay-norms-biases",
     "optimizer.groups",
     {},
     "[group(parameters=norms-biases, rate=1, weight_decay=0)]",
     "none"},
    {"schedule-unit", "schedule.by"},
    {"sched-on-updates", "schedule.by", {}, "step"},
    {"step-epochs", "schedule.every"},
    {"step-size", "schedule.every"},
    {"lr-step-size", "schedule.every"},
    {"decay-epochs", "schedule.every"},
    {"lr-gamma", "schedule.gamma"},
    {"decay-rate", "schedule.gamma"},
    {"min-lr", "schedule.to"},
    {"eta-min", "schedule.to"},
    {"lr-min", "schedule.to"},
    {"warmup-epochs", "schedule.warmup", "ep", {}, "0"},
    {"warmup-steps", "schedule.warmup", "steps", {}, "0"},
    {"lr-warmup-epochs", "schedule.warmup", "ep", {}, "0"},
    {"lr-warmup-decay", "schedule.warmup-start"},
};

constexpr GoneOption kGone[] = {
    {"reduce-precision", "--allreduce tree-bf16 sends gradients in bf16"},
    {"divisor", "--schedule 'step(30, gamma=0.2)' has the factor, 1 / divisor, as gamma"},
};

constexpr std::string_view kPolicies =
    "a policy is one of the transforms, autoaugment, randaugment, trivialaugment or augmix: "
    "--augment 'rrc(224), hflip, randaugment(2, 9)'";
constexpr std::string_view kErasing =
    "erase(p) is one of the transforms: --augment 'rrc(224), hflip, erase(0.1)'";
constexpr std::string_view kFlips = "flips are transforms: --augment 'rrc(224), hflip, vflip(0.1)'";
constexpr std::string_view kWindows =
    "a parameter of the random window: --augment 'rrc(224, area=0.08..1, ratio=0.75..1.33)'";
constexpr std::string_view kAlwaysMixed =
    "every batch is mixed; with --mixup and --cutmix each has one of the two, by the same odds";
constexpr std::string_view kGroups =
    "parameters with other values are a group of the rule's: --optimizer.groups "
    "'[group(norms-biases, weight_decay=0)]'";
constexpr std::string_view kEma =
    "--ema X averages the weights after each step, by this decay; torchvision's 0.99998 of 600 "
    "epochs in steps of 1,024 samples is 0.999966 here";
constexpr std::string_view kOwnStatistics =
    "batch norm's statistics are each device's own; a larger --batch-size steadies them";
constexpr std::string_view kLayouts = "layouts and kernels follow from the processor (--dump-plan)";
constexpr std::string_view kProcesses =
    "mpirun or srun starts the processes: mpirun -n 4 millrace train ...";
constexpr std::string_view kEvaluations =
    "an evaluation follows each epoch; --epoch-samples N makes epochs shorter or longer";
constexpr std::string_view kRunDir =
    "--run-dir DIR has metrics.csv, TensorBoard's events and a page, report.html";
constexpr std::string_view kPatience =
    "no measure ends a run early: checkpoints/best is the best epoch's, and --max-time TIME ends a "
    "run";
constexpr std::string_view kLanded =
    "batches have landed on their devices when a step asks for them: there is nothing to pin";
constexpr std::string_view kShards =
    "--train SPEC and --val SPEC are the shards, which millrace create makes of folders";

constexpr ForeignOption kForeign[] = {
    {"auto-augment", "augment", kPolicies},
    {"aa", "augment", kPolicies},
    {"ra-magnitude", "augment",
     "a parameter of randaugment: --augment 'rrc(224), randaugment(2, 9)'"},
    {"augmix-severity", "augment", "a parameter of augmix: --augment 'rrc(224), augmix(3)'"},
    {"random-erase", "augment", kErasing},
    {"reprob", "augment", kErasing},
    {"remode", "augment", kErasing},
    {"recount", "augment", kErasing},
    {"hflip", "augment", kFlips},
    {"vflip", "augment", kFlips},
    {"color-jitter", "augment",
     "jitter is one of the transforms: --augment 'rrc(224), jitter(0.4, 0.4)'"},
    {"scale", "augment", kWindows},
    {"ratio", "augment", kWindows},
    {"train-interpolation", "augment",
     "a parameter of the transform: --augment 'rrc(224, interpolation=bicubic)'"},
    {"no-aug", "augment", "nothing is augmented without --augment"},
    {"crop-pct", "eval-resize",
     "--eval-resize N is the shorter side before the middle is cropped, size / crop_pct: 256 for "
     "--size 224 with 0.875"},
    {"input-size", "size", "--size HxW, and --channels N"},
    {"mixup-prob", "mixup", kAlwaysMixed},
    {"mixup-switch-prob", "mixup", kAlwaysMixed},
    {"ra-sampler", "order", "repeated augmentation is an order: --order 'permutation(copies=3)'"},
    {"model-ema", "ema", kEma},
    {"model-ema-steps", "ema", kEma},
    {"norm-weight-decay", "optimizer", kGroups},
    {"bias-weight-decay", "optimizer", kGroups},
    {"transformer-embedding-decay", "optimizer", kGroups},
    {"layer-decay", "optimizer", kGroups},
    {"clip-mode", "clip-norm", "--clip-norm X or --clip-value X"},
    {"gradient-clip-algorithm", "clip-norm", "--clip-norm X or --clip-value X"},
    {"lr-warmup-method", "schedule",
     "a warm-up is linear: --schedule 'cosine(warmup=5ep, warmup_start=0.01)'"},
    {"warmup-lr", "schedule",
     "a warm-up starts at a share of the rate: --schedule 'cosine(warmup=5ep, warmup_start=0.01)'"},
    {"decay-milestones", "schedule", "--schedule 'multi-step([30, 60, 80], gamma=0.1)'"},
    {"lr-base", "optimizer.lr",
     "--lr X is the rate itself; --scale-lr multiplies it by the number of devices"},
    {"cooldown-epochs", "schedule",
     "a schedule falls until the run ends, to the rate that it says: --schedule 'cosine(to=1e-5)'"},
    {"patience", "epochs", kPatience},
    {"patience-epochs", "epochs", kPatience},
    {"early-stopping-patience", "epochs", kPatience},
    {"max-steps", "epochs", "--epochs N, of --epoch-samples N: samples of a step times steps"},
    {"min-epochs", "epochs", "--epochs N is how many there are"},
    {"val-check-interval", "epoch-samples", kEvaluations},
    {"check-val-every-n-epoch", "epoch-samples", kEvaluations},
    {"validation-batch-size", "schedule", "evaluations have the --batch-size of training"},
    {"sync-bn", "batch-size", kOwnStatistics},
    {"sync-batchnorm", "batch-size", kOwnStatistics},
    {"channels-last", "precision", kLayouts},
    {"torchcompile", "precision", kLayouts},
    {"benchmark", "precision", kLayouts},
    {"world-size", "schedule", kProcesses},
    {"dist-url", "schedule", kProcesses},
    {"num-nodes", "schedule", kProcesses},
    {"strategy", "schedule", kProcesses},
    {"detect-anomaly", "on-non-finite",
     "--on-non-finite fail, the default, ends a run by the first loss or gradient that is not "
     "finite"},
    {"profiler", "trace",
     "--trace FILE writes what threads and devices do; every run ends with what limits it"},
    {"callbacks", "run-dir",
     "what callbacks do are options: --save-top-k N, --ema X, --log-steps N, --trace FILE; of a "
     "C++ program's own, trainer::Observer"},
    {"enable-checkpointing", "run-dir", "--run-dir none writes nothing"},
    {"enable-model-summary", "summary", "--summary prints the layers, and trains nothing"},
    {"enable-progress-bar", "log-steps",
     "a terminal has the bar, a pipe or TERM=dumb has not; --log-steps N is a line every N steps"},
    {"eval-metric", "monitor",
     "--monitor val_top1 is the measure that decides which epoch is best"},
    {"pin-mem", "prefetch", kLanded},
    {"pin-memory", "prefetch", kLanded},
    {"logger", "run-dir", kRunDir},
    {"log-wandb", "run-dir", kRunDir},
    {"experiment", "run-dir", kRunDir},
    {"start-epoch", "resume", "--resume PATH goes on where the checkpoint is"},
    {"pretrained", "init", "--init FILE.safetensors is the weights to start from"},
    {"test-only", "schedule", "millrace eval evaluates a checkpoint"},
    {"tta", "views", "--views mirror or mirror-shift averages over views of each picture"},
    {"data-path", "schedule", kShards},
    {"data-dir", "schedule", kShards},
    {"dataset", "schedule", kShards},
    {"train-split", "schedule", kShards},
    {"val-split", "schedule", kShards},
    {"model", "checkpoint", "the checkpoint says which model it is"},
    {"val", "checkpoint", "SPEC are the shards to read, without an option before them"},
    {"multi-crop", "schedule",
     "no task takes views as fields of their own; --task contrast compares views of one size, by "
     "--order 'permutation(copies=2)', and a program's own loop has them as fields "
     "(mr.Image(view=1))"},
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
std::span<const ForeignOption> foreign_options() { return kForeign; }
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
