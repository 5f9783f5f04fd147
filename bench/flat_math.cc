// Arithmetic on flat buffers: Eigen next to the loop that it replaced, and the memory's limit.
//
// Processor time of one thread, the fastest of several alternating rounds. Buffers are ResNet-18's
// 11,689,512 floats, which fit into no cache, and LeNet's 61,706, which fit into the L2 cache:
// there "of memory" compares with the time that memory would need.
#include "trainer/detail/flat_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/clock_seconds.h"
#include "io/base/rng.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/value_losses.h"
#include "trainer/metrics.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/sgd.h"

namespace millrace {
namespace {

using Floats = std::vector<float>;

constexpr int kRounds = 9;

double now() { return bench::clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

// Sums are added to it, so that the compiler cannot remove them.
double g_used = 0;

double seconds_of(const std::function<void()>& work, int times) {
  const double start = now();
  for (int i = 0; i < times; ++i) work();
  return (now() - start) / times;
}

/// Memory traffic per float, in bytes.
struct Traffic {
  double read = 0;     ///< read only
  double updated = 0;  ///< read and written back
};

/// This machine's memory bandwidth with one thread, in bytes per second.
struct Memory {
  double read = 0;
  double updated = 0;

  double seconds(const Traffic& traffic, std::size_t floats) const {
    return static_cast<double>(floats) * (traffic.read / read + traffic.updated / updated);
  }
};

struct Piece {
  std::string name;
  Traffic traffic;
  std::function<void()> eigen;
  std::function<void()> loop;
  std::size_t floats = 0;
};

Floats values_of(std::size_t count, std::uint64_t seed) {
  KeyedRng rng({.seed = seed});
  Floats values(count);
  for (float& value : values) value = 2.0F * rng.uniform() - 1.0F;
  return values;
}

// The former loops, with the former compiler flags.
namespace loops {

struct Step {
  float lr = 1e-6F;
  float scale = 1.0F;  // of the gradient
  float decay = 1e-4F;
  float momentum = 0.9F;
  float gain = 1.0F;
  float along = 0.0F;  // of the gradient itself, Nesterov's
  float of_buf = 1.0F;
  float shrink = 1.0F;  // AdamW's
  float root_bias2 = 0.0998F;
};

[[gnu::noinline]] void sgd(Floats& w, const Floats& g, Floats& buf, const Step& s) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float gradient = s.scale * g[i] + s.decay * w[i];
    buf[i] = s.momentum * buf[i] + s.gain * gradient;
    w[i] -= s.lr * (s.along * gradient + s.of_buf * buf[i]);
  }
}

[[gnu::noinline]] void lars(Floats& w, const Floats& g, Floats& buf, const Step& s) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float smooth = s.momentum * buf[i] + s.lr * (s.scale * g[i] + s.decay * w[i]);
    buf[i] = smooth;
    w[i] -= smooth;
  }
}

[[gnu::noinline]] void adam(Floats& w, const Floats& g, Floats& mean, Floats& square,
                            const Step& s) {
  for (std::size_t i = 0; i < w.size(); ++i) {
    const float gradient = s.scale * g[i] + s.decay * w[i];
    mean[i] = 0.9F * mean[i] + 0.1F * gradient;
    square[i] = 0.999F * square[i] + 0.001F * gradient * gradient;
    const float denominator = std::sqrt(square[i]) / s.root_bias2 + 1e-8F;
    w[i] = s.shrink * w[i] - s.lr * (mean[i] / denominator);
  }
}

void ema(Floats& mean, const Floats& w, float keep) {
  for (std::size_t i = 0; i < w.size(); ++i) mean[i] = keep * mean[i] + (1.0F - keep) * w[i];
}

double square_sum(const Floats& values) {
  double sum = 0.0;
  for (const float g : values) sum += static_cast<double>(g) * static_cast<double>(g);
  return sum;
}

void clamp(Floats& values, float bound) {
  for (float& g : values) g = std::clamp(g, -bound, bound);
}

void add(Floats& into, const Floats& values) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] += values[i];
}

void sum(Floats& into, const Floats& a, const Floats& b) {
  constexpr std::size_t kBlock = 2048;
  float total[kBlock];
  for (std::size_t at = 0; at < into.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, into.size() - at);
    std::copy_n(a.data() + at, n, total);
    for (std::size_t i = 0; i < n; ++i) total[i] += b[at + i];
    std::copy_n(total, n, into.data() + at);
  }
}

void scale(Floats& values, float factor) {
  for (float& value : values) value *= factor;
}

bool all_finite(const Floats& values) {
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

std::uint16_t bf16_bits(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? quiet : rounded);
}

void round_to_bf16(Floats& values) {
  for (float& value : values) {
    value = std::bit_cast<float>(static_cast<std::uint32_t>(bf16_bits(value)) << 16);
  }
}

double squared_error(const Floats& a, const Floats& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return sum;
}

void mask_counts(const Floats& logits, const Floats& targets, trainer::MaskCounts& counts) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const bool predicted = logits[i] > 0.0F;
    const bool target = targets[i] > 0.5F;
    double& count = predicted ? (target ? counts.both : counts.only_predicted)
                              : (target ? counts.only_target : counts.neither);
    count += 1.0;
  }
}

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

double bce(const Floats& x, const Floats& y, Floats& gradient) {
  double sum = 0;
  const auto count = static_cast<float>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    sum += static_cast<double>(std::max(x[i], 0.0F) - x[i] * y[i] +
                               std::log1p(std::exp(-std::abs(x[i]))));
  }
  for (std::size_t i = 0; i < x.size(); ++i) gradient[i] = (sigmoid(x[i]) - y[i]) / count;
  return sum / static_cast<double>(x.size());
}

double cross_entropy(const Floats& logits, const std::vector<std::int64_t>& labels,
                     Floats& gradient) {
  const std::size_t classes = logits.size() / labels.size();
  double loss = 0;
  std::size_t hits = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    const std::span<const float> row(logits.data() + n * classes, classes);
    const float top = *std::max_element(row.begin(), row.end());
    float sum = 0;
    for (const float x : row) sum += std::exp(x - top);
    const float log_sum = top + std::log(sum);
    const auto label = static_cast<std::size_t>(labels[n]);
    loss += static_cast<double>(log_sum - row[label]);
    for (std::size_t k = 0; k < classes; ++k) {
      gradient[n * classes + k] = std::exp(row[k] - log_sum) - (k == label ? 1.0F : 0.0F);
      hits += row[k] > row[label] ? 1 : 0;
    }
  }
  return loss + static_cast<double>(hits);
}

}  // namespace loops

// A model's buffers.
struct Buffers {
  explicit Buffers(std::size_t size)
      : weights(values_of(size, 1)),
        gradients(values_of(size, 2)),
        mean(size, 0.0F),
        square(size, 0.0F) {}

  Floats weights;
  Floats gradients;
  Floats mean;
  Floats square;
};

void apply(const trainer::Rule& rule, Buffers& b, int states) {
  const auto one = rule.make();
  const std::vector<std::span<float>> all{b.mean, b.square};
  one->apply({.lr = 1e-6F, .weight_decay = 1e-4F, .step = 10},
             {.weights = b.weights,
              .gradients = b.gradients,
              .states = std::span(all).first(static_cast<std::size_t>(states))});
}

std::vector<Piece> rules(Buffers& b) {
  using loops::Step;
  return {{"SGD, momentum",
           {4, 16},
           [&] { apply(trainer::Sgd(), b, 1); },
           [&] { loops::sgd(b.weights, b.gradients, b.mean, Step()); }},
          {"LARS",
           {4, 16},
           [&] { apply(trainer::Lars(), b, 1); },
           [&] { loops::lars(b.weights, b.gradients, b.mean, Step()); }},
          {"Adam",
           {4, 24},
           [&] { apply(trainer::Adam(), b, 2); },
           [&] { loops::adam(b.weights, b.gradients, b.mean, b.square, Step()); }},
          {"AdamW",
           {4, 24},
           [&] { apply(trainer::AdamW(), b, 2); },
           [&] {
             loops::adam(b.weights, b.gradients, b.mean, b.square,
                         {.decay = 0.0F, .shrink = 0.9999F});
           }}};
}

std::vector<Piece> flat(Buffers& b) {
  const auto sources = [&] { return std::vector<const float*>{b.weights.data(), b.mean.data()}; };
  return {{"mean of the weights (EMA)",
           {4, 8},
           [&] { trainer::flat::update_ema(b.mean, b.weights, 0.999F); },
           [&] { loops::ema(b.mean, b.weights, 0.999F); }},
          {"norm",
           {4, 0},
           [&] { g_used += trainer::flat::square_sum(b.gradients); },
           [&] { g_used += loops::square_sum(b.gradients); }},
          {"clip by value",
           {0, 8},
           [&] { trainer::flat::clamp(b.gradients, 0.9F); },
           [&] { loops::clamp(b.gradients, 0.9F); }},
          {"accumulate gradients",
           {4, 8},
           [&] { trainer::flat::add(b.mean, b.gradients); },
           [&] { loops::add(b.mean, b.gradients); }},
          {"sum of two ranks",
           {4, 8},
           [&] { trainer::flat::sum(b.mean, sources()); },
           [&] { loops::sum(b.mean, b.weights, b.mean); }},
          {"scale",
           {0, 8},
           [&] { trainer::flat::scale(b.gradients, 0.99999F); },
           [&] { loops::scale(b.gradients, 0.99999F); }},
          {"finite check",
           {4, 0},
           [&] { g_used += trainer::flat::all_finite(b.weights); },
           [&] { g_used += loops::all_finite(b.weights); }},
          {"round to bf16 (a loop)",
           {0, 8},
           [&] { trainer::flat::round_to_bf16(b.weights); },
           [&] { loops::round_to_bf16(b.weights); }},
          {"squared error",
           {8, 0},
           [&] { g_used += trainer::squared_error(b.weights, b.gradients); },
           [&] { g_used += loops::squared_error(b.weights, b.gradients); }},
          {"mask counts",
           {8, 0},
           [&] {
             trainer::MaskCounts counts;
             counts.add(b.weights, b.gradients);
             g_used += counts.both;
           },
           [&] {
             trainer::MaskCounts counts;
             loops::mask_counts(b.weights, b.gradients, counts);
             g_used += counts.both;
           }}};
}

/// Logits, targets and gradients of a batch.
struct Scores {
  Scores(std::int64_t slots, std::int64_t values)
      : shape{slots, values},
        logits(values_of(static_cast<std::size_t>(slots * values), 5)),
        targets(values_of(logits.size(), 6)),
        gradient(logits.size()),
        valid(static_cast<std::size_t>(slots), 1),
        labels(valid.size()) {
    for (float& target : targets) target = target > 0.0F ? 1.0F : 0.0F;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<std::int64_t>(i) % values;
    }
  }

  double score(const trainer::LossChoice& choice) {
    const auto loss = choice.make();
    const trainer::Target target = loss->target() == trainer::TargetKind::kClass
                                       ? trainer::Target{.labels = labels}
                                       : trainer::Target{.values = targets};
    return loss
        ->evaluate(
            {.prediction = {shape, logits}, .target = target, .valid = valid, .gradient = gradient})
        .loss;
  }

  std::vector<std::int64_t> shape;
  Floats logits;
  Floats targets;
  Floats gradient;
  std::vector<std::uint8_t> valid;
  std::vector<std::int64_t> labels;
};

std::vector<Piece> losses(Scores& classes, Scores& masks) {
  return {
      {"cross-entropy, 128 x 1000",
       {4, 4},
       [&] { g_used += classes.score(trainer::losses::CrossEntropy{}); },
       [&] { g_used += loops::cross_entropy(classes.logits, classes.labels, classes.gradient); },
       classes.logits.size()},
      {"BCE, 32 masks of 96 x 96",
       {8, 4},
       [&] { g_used += masks.score(trainer::losses::Bce{}); },
       [&] { g_used += loops::bce(masks.logits, masks.targets, masks.gradient); },
       masks.logits.size()}};
}

void print(const Piece& piece, std::size_t floats, const Memory& memory) {
  const int times = static_cast<int>(std::max<std::size_t>(1, 2'000'000 / floats));
  double eigen = 1e9;
  double loop = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    eigen = std::min(eigen, seconds_of(piece.eigen, times));
    loop = std::min(loop, seconds_of(piece.loop, times));
  }
  const double limit = memory.seconds(piece.traffic, floats);
  std::printf("%-28s %10zu %10.3f ms %10.3f ms %6.2f %10.3f ms %6.2f\n", piece.name.c_str(), floats,
              1e3 * eigen, 1e3 * loop, loop / eigen, 1e3 * limit, limit / eigen);
  std::fflush(stdout);
}

// Traverses several arrays at once, like the operations, with almost no arithmetic.
Memory measure_memory() {
  constexpr std::size_t kWords = std::size_t{6} * 1024 * 1024;
  std::vector<std::uint64_t> a(kWords, 1), b(kWords, 2), c(kWords, 3);
  const auto bytes = static_cast<double>(8 * kWords);
  double read = 1e9;
  double updated = 1e9;
  for (int i = 0; i < kRounds; ++i) {
    const auto sum = [&] {
      std::uint64_t total = 0;
      for (std::size_t k = 0; k < kWords; ++k) total += a[k] ^ b[k];
      g_used += static_cast<double>(total);
    };
    const auto change = [&] {
      for (std::size_t k = 0; k < kWords; ++k) {
        a[k] ^= 1;
        b[k] ^= 2;
        c[k] ^= 3;
      }
    };
    read = std::min(read, seconds_of(sum, 1));
    updated = std::min(updated, seconds_of(change, 1));
  }
  return {2 * bytes / read, 6 * bytes / updated};
}

// PyTorch's Adam on one thread, in milliseconds; 0 if python3 has no torch.
double torch_adam(std::size_t floats) {
  const std::string command =
      "/usr/bin/python3 bench/peers/torch_adam.py " + std::to_string(floats) + " 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  double milliseconds = 0;
  if (std::fscanf(pipe, "%lf", &milliseconds) != 1) milliseconds = 0;
  ::pclose(pipe);
  return milliseconds;
}

void run() {
  const Memory memory = measure_memory();
  std::printf("memory, one thread: reads %.1f GB/s, updates in place %.1f GB/s (both ways)\n",
              memory.read / 1e9, memory.updated / 1e9);
  std::printf("%-28s %10s %13s %13s %6s %13s %6s\n", "", "floats", "Eigen", "loop", "ratio",
              "memory", "of it");
  for (const std::size_t floats : {std::size_t{11'689'512}, std::size_t{61'706}}) {
    Buffers buffers(floats);
    for (const Piece& piece : rules(buffers)) print(piece, floats, memory);
    for (const Piece& piece : flat(buffers)) print(piece, floats, memory);
  }
  Scores classes(128, 1000);
  Scores masks(32, std::int64_t{96} * 96);
  for (const Piece& piece : losses(classes, masks)) print(piece, piece.floats, memory);
  const double peer = torch_adam(11'689'512);
  if (peer > 0) std::printf("PyTorch's Adam, 11689512 floats, one thread: %.3f ms\n", peer);
}

}  // namespace
}  // namespace millrace

int main() {
  millrace::run();
  return std::isnan(millrace::g_used) ? 1 : 0;
}
