#include "trainer/loss/detail/embeddings.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <unordered_map>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/collectives.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/loss/detail/contrast_program.h"

namespace millrace::trainer::detail {
namespace {

using Vector = Eigen::VectorXf;

Eigen::Map<Vector> vector_of(std::span<float> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

std::span<float> row_of(Matrix& matrix, std::size_t row) {
  const auto columns = static_cast<std::size_t>(matrix.cols());
  return {matrix.data() + row * columns, columns};
}

/// A batch's own, in the order of its slots.
struct OwnEmbeddings {
  Embeddings of;
  std::vector<std::size_t> slots;
  std::vector<float> norms;  ///< before they had length 1: one for each part of each slot
};

/// Those of all ranks, in the ranks' order.
struct AllEmbeddings {
  Embeddings of;
  std::size_t first_own = 0;
  bool is_full = true;  ///< no slot of any rank is masked
};

/// A rank's embeddings on the wire: whether none of its slots is masked, their samples, their rows.
std::vector<std::byte> packed(const OwnEmbeddings& own, bool is_full) {
  const Embeddings& of = own.of;
  const auto samples = std::as_bytes(std::span(of.samples));
  const auto rows =
      std::as_bytes(std::span(of.rows.data(), static_cast<std::size_t>(of.rows.size())));
  std::vector<std::byte> message = {is_full ? std::byte{1} : std::byte{0}};
  message.insert(message.end(), samples.begin(), samples.end());
  message.insert(message.end(), rows.begin(), rows.end());
  return message;
}

std::size_t row_bytes(const Embeddings& of) {
  return sizeof(std::int64_t) + static_cast<std::size_t>(of.rows.cols()) * sizeof(float);
}

/// Of a message; that of a rank without a sample is empty.
std::size_t rows_in(std::span<const std::byte> message, std::size_t row) {
  if (message.empty()) return 0;
  MILLRACE_CHECK(message.size() % row == 1, "embeddings of another width");
  return message.size() / row;
}

/// Puts a rank's embeddings behind the first `at`.
void unpack(std::span<const std::byte> message, std::size_t at, AllEmbeddings& all) {
  all.is_full = all.is_full && !message.empty() && message[0] != std::byte{0};
  const std::size_t count = rows_in(message, row_bytes(all.of));
  if (count == 0) return;
  const std::size_t of_samples = count * sizeof(std::int64_t);
  const auto width = static_cast<std::size_t>(all.of.rows.cols());
  std::memcpy(all.of.samples.data() + at, message.data() + 1, of_samples);
  std::memcpy(all.of.rows.data() + at * width, message.data() + 1 + of_samples,
              count * width * sizeof(float));
}

OwnEmbeddings own_embeddings(const LossInput& input, const Contrast& contrast) {
  OwnEmbeddings own;
  for (std::size_t slot = 0; slot < input.valid.size(); ++slot)
    if (input.valid[slot] != 0) own.slots.push_back(slot);
  const std::int64_t width = input.prediction.shape[1];
  const std::int64_t part_width = width / contrast.parts;
  own.of.rows.resize(static_cast<Eigen::Index>(own.slots.size()), width);
  const Eigen::Map<const Matrix> all(input.prediction.data.data(), input.prediction.shape[0],
                                     width);
  for (std::size_t i = 0; i < own.slots.size(); ++i) {
    for (std::int64_t part = 0; part < contrast.parts; ++part) {
      const std::int64_t begin = part * part_width;
      const auto embedding =
          all.row(static_cast<Eigen::Index>(own.slots[i])).segment(begin, part_width);
      auto row = own.of.rows.row(static_cast<Eigen::Index>(i)).segment(begin, part_width);
      own.norms.push_back(embedding.norm());
      if (contrast.lengths == Lengths::kOne)
        row = embedding / std::max(own.norms.back(), kLeastNorm);
      else
        row = embedding;
    }
    own.of.samples.push_back(input.target.labels[own.slots[i]]);
  }
  return own;
}

AllEmbeddings gather(const OwnEmbeddings& own, const LossInput& input) {
  const bool is_full = own.slots.size() == input.valid.size();
  if (input.group == nullptr) return {.of = own.of, .is_full = is_full};
  const auto messages = input.group->all_gather_bytes(packed(own, is_full));
  std::vector<std::size_t> ends = {0};  // of the ranks before
  for (const auto& message : messages)
    ends.push_back(ends.back() + rows_in(message, row_bytes(own.of)));
  AllEmbeddings all;
  all.first_own = ends[static_cast<std::size_t>(input.group->rank())];
  all.of.samples.resize(ends.back());
  all.of.rows.resize(static_cast<Eigen::Index>(ends.back()), own.of.rows.cols());
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    unpack(messages[rank], ends[rank], all);
  return all;
}

/// Numbers of the ranks' slots.
std::vector<float> gather(const std::vector<float>& own, Collectives* group) {
  if (group == nullptr) return own;
  std::vector<float> all;
  for (const auto& message : group->all_gather_bytes(std::as_bytes(std::span(own)))) {
    const std::size_t before = all.size();
    all.resize(before + message.size() / sizeof(float));
    if (!message.empty()) std::memcpy(all.data() + before, message.data(), message.size());
  }
  return all;
}

/// A rank without a sample: as many gathers as the others make.
LossSums join(Collectives* group) {
  for (int gathers = 0; group != nullptr && gathers < 2; ++gathers) group->all_gather_bytes({});
  return {};
}

/// How many each slot has: those of its sample, of which it is one itself where parts are compared.
std::vector<float> count_positives(const std::vector<std::int64_t>& samples, std::int64_t parts) {
  std::unordered_map<std::int64_t, float> slots;
  for (const std::int64_t sample : samples) ++slots[sample];
  std::vector<float> counts;
  counts.reserve(samples.size());
  for (const std::int64_t sample : samples)
    counts.push_back(parts == 1 ? slots[sample] - 1.0F : slots[sample]);
  return counts;
}

void check_embeddings(const LossInput& input, std::int64_t parts, const char* loss) {
  const nn::Shape& shape = input.prediction.shape;
  const std::size_t slots = input.valid.size();
  const bool fits =
      shape.size() == 2 && static_cast<std::size_t>(shape[0]) == slots && shape[1] > 0 &&
      shape[1] % parts == 0 && input.target.labels.size() == slots &&
      (input.gradient.empty() || input.gradient.size() == input.prediction.data.size());
  if (fits) return;
  throw Error(ErrorCode::kInvalidArgument, std::string(loss) + " needs embeddings (N, " +
                                               (parts > 1 ? std::to_string(parts) + " F" : "F") +
                                               "), N sample numbers and N flags, got outputs " +
                                               nn::shape_text(shape) + ", " +
                                               std::to_string(input.target.labels.size()) +
                                               " numbers and " + std::to_string(slots) + " flags");
}

/// Throws: InvalidArgument for a step whose slots have no positives, or nothing else.
void check_comparable(const std::vector<float>& positives, std::int64_t parts,
                      const std::string& loss) {
  const std::size_t slots = positives.size();
  const auto are_all = [&](std::size_t count) {
    return std::ranges::all_of(positives,
                               [&](float of) { return of == static_cast<float>(count); });
  };
  const auto fail = [&](const std::string& fault) {
    throw Error(ErrorCode::kInvalidArgument, loss + ": " + fault, {.stage = "loss"});
  };
  if (are_all(0))
    fail("no two of the step's " + std::to_string(slots) +
         " slots are of the same sample: it needs several views of each, such as the copies of a "
         "permutation");
  if (are_all(parts == 1 ? slots - 1 : slots))
    fail("all of the step's " + std::to_string(slots) +
         " slots are of one sample: there is nothing to tell it from");
}

void fill(const ContrastRow& row, float temperature) {
  vector_of(row.logits).noalias() = row.others() * row.embedding();
  flat::whole(row.logits) /= temperature;
  if (row.parts == 1) row.logits[row.self] = kNever;
}

float log_sum_of(std::span<const float> logits) {
  const float top = flat::whole(logits).maxCoeff();
  if (top == kNever) return 0.0F;  // nothing beside itself
  const double sum = flat::sum_over([top](auto x) { return (x - top).exp(); }, logits);
  return top + static_cast<float>(std::log(sum));
}

/// How many of another sample are at least as near as `positive`: equally near ones count, so that
/// embeddings all alike hit nothing.
std::size_t count_nearer(const ContrastRow& row, float positive) {
  std::size_t nearer = 0;
  for (std::size_t j = 0; j < row.logits.size(); ++j)
    if (row.logits[j] >= positive && !row.is_positive(j)) ++nearer;
  return nearer;
}

/// A part's share of a slot's loss; the first one's tells whether a positive is near.
LossSums sums_of_row(const ContrastRow& row, float log_sum) {
  const float positives = row.positives[row.self];
  if (positives == 0.0F) return {};
  double total = 0;
  float best = kNever;
  for (std::size_t j = 0; j < row.logits.size(); ++j) {
    if (!row.is_positive(j)) continue;
    total += static_cast<double>(row.logits[j]);
    best = std::max(best, row.logits[j]);
  }
  const double loss = static_cast<double>(log_sum) - total / static_cast<double>(positives);
  const double share = loss / static_cast<double>(row.parts);
  if (row.part != 0 || !std::isfinite(loss)) return {.loss = share};
  const std::size_t nearer = count_nearer(row, best);
  return {.loss = share, .top1 = nearer < 1 ? 1 : 0, .top5 = nearer < 5 ? 1 : 0};
}

}  // namespace

/// This rank's embeddings, part by part of each slot, beside those of all.
struct ContrastLoss::Comparison {
  Comparison(const LossInput& input, const Contrast& contrast)
      : parts(static_cast<std::size_t>(contrast.parts)),
        own(own_embeddings(input, contrast)),
        all(gather(own, input)),
        positives(count_positives(all.of.samples, contrast.parts)),
        logits(static_cast<Eigen::Index>(num_rows()), static_cast<Eigen::Index>(all.of.size())) {}

  std::size_t num_rows() const { return own.norms.size(); }
  ContrastRow row(std::size_t index) {
    return {.all = all.of,
            .positives = positives,
            .parts = parts,
            .part = index % parts,
            .self = all.first_own + index / parts,
            .logits = row_of(logits, index)};
  }
  /// Its own of the values of all slots, masked ones included.
  std::span<float> part_of(std::span<float> values, std::size_t index) const {
    const std::size_t width = static_cast<std::size_t>(all.of.rows.cols()) / parts;
    return values.subspan((parts * own.slots[index / parts] + index % parts) * width, width);
  }

  std::size_t parts;
  OwnEmbeddings own;
  AllEmbeddings all;
  std::vector<float> positives;
  Matrix logits;
};

std::optional<hlo::LossResults> ContrastLoss::stablehlo(const hlo::LossArguments& of) const {
  return contrast_program(of, contrast_);
}

LossSums ContrastLoss::evaluate(const LossInput& input) const {
  if (input.valid.empty()) return join(input.group);
  check_embeddings(input, contrast_.parts, word_);
  Comparison of(input, contrast_);
  if (!input.gradient.empty() && of.all.is_full)
    check_comparable(of.positives, contrast_.parts, word_);
  std::vector<float> log_sums;
  LossSums sums{.num_valid = static_cast<std::int64_t>(of.own.slots.size())};
  for (std::size_t i = 0; i < of.num_rows(); ++i) {
    const ContrastRow row = of.row(i);
    fill(row, contrast_.temperature);
    log_sums.push_back(log_sum_of(row.logits));
    sums += sums_of_row(row, log_sums.back());
  }
  if (!input.gradient.empty()) set_gradient(of, gather(log_sums, input.group), input);
  return sums;
}

void ContrastLoss::set_gradient(Comparison& of, const std::vector<float>& log_sums,
                                const LossInput& input) const {
  std::ranges::fill(input.gradient, 0.0F);
  const double share = 1.0 / static_cast<double>(of.parts);
  const auto scale =
      static_cast<float>(share / (input.divisor * static_cast<double>(contrast_.temperature)));
  for (std::size_t i = 0; i < of.num_rows(); ++i) {
    const float norm = of.own.norms[i];
    if (contrast_.lengths == Lengths::kOne && norm < kLeastNorm) continue;
    const ContrastRow row = of.row(i);
    differentiate(row, log_sums);
    const Vector along = scale * (row.others().transpose() * vector_of(row.logits));
    auto gradient = vector_of(of.part_of(input.gradient, i));
    if (contrast_.lengths == Lengths::kOne)
      gradient = (along - row.embedding().dot(along) * row.embedding()) / norm;
    else
      gradient = along;
  }
}

}  // namespace millrace::trainer::detail
