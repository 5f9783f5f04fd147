#include "trainer/loss/info_nce.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>

#include "io/base/check.h"
#include "io/base/error.h"
#include "trainer/collectives.h"
#include "trainer/detail/flat_chunks.h"

namespace millrace::trainer::losses {
namespace {

using Vector = Eigen::VectorXf;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Shorter embeddings have no direction.
constexpr float kLeastNorm = 1e-12F;
constexpr float kNever = -std::numeric_limits<float>::infinity();

Eigen::Map<Vector> vector_of(std::span<float> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

/// Valid slots: which sample each is of, and its embedding with length 1.
struct Views {
  std::vector<std::int64_t> samples;
  Matrix units;

  std::size_t size() const { return samples.size(); }
};

/// A batch's own, in the order of its slots.
struct OwnViews {
  Views views;
  std::vector<std::size_t> slots;
  std::vector<float> norms;
};

OwnViews own_views(const LossInput& input) {
  OwnViews own;
  for (std::size_t slot = 0; slot < input.valid.size(); ++slot)
    if (input.valid[slot] != 0) own.slots.push_back(slot);
  const std::int64_t width = input.prediction.shape[1];
  own.views.units.resize(static_cast<Eigen::Index>(own.slots.size()), width);
  const Eigen::Map<const Matrix> all(input.prediction.data.data(), input.prediction.shape[0],
                                     width);
  for (std::size_t i = 0; i < own.slots.size(); ++i) {
    const auto embedding = all.row(static_cast<Eigen::Index>(own.slots[i]));
    own.norms.push_back(embedding.norm());
    own.views.units.row(static_cast<Eigen::Index>(i)) =
        embedding / std::max(own.norms.back(), kLeastNorm);
    own.views.samples.push_back(input.target.labels[own.slots[i]]);
  }
  return own;
}

/// Those of all ranks, in the ranks' order.
struct AllViews {
  Views views;
  std::size_t first_own = 0;
  bool is_full = true;  ///< no slot of any rank is masked
};

/// A rank's views on the wire: whether none of its slots is masked, their samples, their units.
std::vector<std::byte> packed(const OwnViews& own, bool is_full) {
  const Views& views = own.views;
  const auto samples = std::as_bytes(std::span(views.samples));
  const auto units =
      std::as_bytes(std::span(views.units.data(), static_cast<std::size_t>(views.units.size())));
  std::vector<std::byte> message = {is_full ? std::byte{1} : std::byte{0}};
  message.insert(message.end(), samples.begin(), samples.end());
  message.insert(message.end(), units.begin(), units.end());
  return message;
}

std::size_t row_bytes(const Views& views) {
  return sizeof(std::int64_t) + static_cast<std::size_t>(views.units.cols()) * sizeof(float);
}

/// Of a message; that of a rank without a sample is empty.
std::size_t rows_in(std::span<const std::byte> message, std::size_t row) {
  if (message.empty()) return 0;
  MILLRACE_CHECK(message.size() % row == 1, "embeddings of another width");
  return message.size() / row;
}

/// Puts a rank's views behind the first `at`.
void unpack(std::span<const std::byte> message, std::size_t at, AllViews& all) {
  all.is_full = all.is_full && !message.empty() && message[0] != std::byte{0};
  const std::size_t count = rows_in(message, row_bytes(all.views));
  if (count == 0) return;
  const std::size_t of_samples = count * sizeof(std::int64_t);
  const auto width = static_cast<std::size_t>(all.views.units.cols());
  std::memcpy(all.views.samples.data() + at, message.data() + 1, of_samples);
  std::memcpy(all.views.units.data() + at * width, message.data() + 1 + of_samples,
              count * width * sizeof(float));
}

AllViews gather(const OwnViews& own, const LossInput& input) {
  const bool is_full = own.slots.size() == input.valid.size();
  if (input.group == nullptr) return {.views = own.views, .is_full = is_full};
  const auto messages = input.group->all_gather_bytes(packed(own, is_full));
  std::vector<std::size_t> ends = {0};  // of the ranks before
  for (const auto& message : messages)
    ends.push_back(ends.back() + rows_in(message, row_bytes(own.views)));
  AllViews all;
  all.first_own = ends[static_cast<std::size_t>(input.group->rank())];
  all.views.samples.resize(ends.back());
  all.views.units.resize(static_cast<Eigen::Index>(ends.back()), own.views.units.cols());
  for (std::size_t rank = 0; rank < messages.size(); ++rank)
    unpack(messages[rank], ends[rank], all);
  return all;
}

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

/// How many positives each view has.
std::vector<float> count_positives(const std::vector<std::int64_t>& samples) {
  std::unordered_map<std::int64_t, float> views;
  for (const std::int64_t sample : samples) ++views[sample];
  std::vector<float> counts;
  counts.reserve(samples.size());
  for (const std::int64_t sample : samples) counts.push_back(views[sample] - 1);
  return counts;
}

void check_comparable(const std::vector<float>& positives) {
  const auto views = static_cast<float>(positives.size());
  const std::string slots = std::to_string(positives.size()) + " slots";
  if (std::ranges::all_of(positives, [](float count) { return count == 0; }))
    throw Error(ErrorCode::kInvalidArgument,
                "infonce: no two of the step's " + slots +
                    " are of the same sample: it needs several views of each, such as the copies "
                    "of a permutation",
                {.stage = "loss"});
  if (std::ranges::all_of(positives, [&](float count) { return count + 1 == views; }))
    throw Error(ErrorCode::kInvalidArgument,
                "infonce: all of the step's " + slots +
                    " are of one sample: there is nothing to tell it from",
                {.stage = "loss"});
}

class InfoNceLoss final : public Loss {
 public:
  explicit InfoNceLoss(float temperature) : temperature_(temperature) {}

  TargetKind target() const override { return TargetKind::kSamples; }
  bool is_collective() const override { return true; }

  LossSums evaluate(const LossInput& input) const override {
    if (input.valid.empty()) return join(input.group);
    check(input);
    const OwnViews own = own_views(input);
    const AllViews all = gather(own, input);
    const std::vector<float> positives = count_positives(all.views.samples);
    if (!input.gradient.empty() && all.is_full) check_comparable(positives);
    Matrix logits(static_cast<Eigen::Index>(own.slots.size()),
                  static_cast<Eigen::Index>(all.views.size()));
    std::vector<float> log_sums;
    LossSums sums;
    for (std::size_t i = 0; i < own.slots.size(); ++i) {
      const Row row{all, positives, all.first_own + i, row_of(logits, i)};
      fill(row);
      log_sums.push_back(log_sum(row.logits));
      sums += one(row, log_sums.back());
    }
    if (input.gradient.empty()) return sums;
    const std::vector<float> all_log_sums = gather(log_sums, input.group);
    std::ranges::fill(input.gradient, 0.0F);
    for (std::size_t i = 0; i < own.slots.size(); ++i) {
      const Row row{all, positives, all.first_own + i, row_of(logits, i)};
      add_gradient(row, all_log_sums, own.norms[i], input.divisor,
                   input.gradient.subspan(own.slots[i] * width_of(all), width_of(all)));
    }
    return sums;
  }

 private:
  /// A view of this rank beside those of all.
  struct Row {
    const AllViews& all;
    std::span<const float> positives;  ///< of each view of all
    std::size_t self;                  ///< among all
    std::span<float> logits;           ///< to each of all; to itself minus infinity

    bool has_positives() const { return positives[self] > 0; }
    bool is_positive(std::size_t other) const {
      return other != self && all.views.samples[other] == all.views.samples[self];
    }
    auto unit() const { return all.views.units.row(static_cast<Eigen::Index>(self)).transpose(); }
  };

  static std::size_t width_of(const AllViews& all) {
    return static_cast<std::size_t>(all.views.units.cols());
  }
  static std::span<float> row_of(Matrix& matrix, std::size_t row) {
    const auto columns = static_cast<std::size_t>(matrix.cols());
    return {matrix.data() + row * columns, columns};
  }

  /// A rank without a sample: as many gathers as the others make.
  static LossSums join(Collectives* group) {
    for (int gathers = 0; group != nullptr && gathers < 2; ++gathers) group->all_gather_bytes({});
    return {};
  }

  static void check(const LossInput& input) {
    const nn::Shape& shape = input.prediction.shape;
    const std::size_t slots = input.valid.size();
    const bool fits =
        shape.size() == 2 && static_cast<std::size_t>(shape[0]) == slots && shape[1] > 0 &&
        input.target.labels.size() == slots &&
        (input.gradient.empty() || input.gradient.size() == input.prediction.data.size());
    if (fits) return;
    throw Error(ErrorCode::kInvalidArgument,
                "infonce needs embeddings (N, F), N sample numbers and N flags, got outputs " +
                    nn::shape_text(shape) + ", " + std::to_string(input.target.labels.size()) +
                    " numbers and " + std::to_string(slots) + " flags");
  }

  void fill(const Row& row) const {
    vector_of(row.logits).noalias() = row.all.views.units * row.unit();
    flat::whole(row.logits) /= temperature_;
    row.logits[row.self] = kNever;
  }

  static float log_sum(std::span<const float> logits) {
    const float top = flat::whole(logits).maxCoeff();
    if (top == kNever) return 0.0F;  // nothing beside itself
    const double sum = flat::sum_over([top](auto x) { return (x - top).exp(); }, logits);
    return top + static_cast<float>(std::log(sum));
  }

  static LossSums one(const Row& row, float log_sum) {
    if (!row.has_positives()) return {.num_valid = 1};
    double total = 0;
    float best = kNever;
    for (std::size_t j = 0; j < row.logits.size(); ++j) {
      if (!row.is_positive(j)) continue;
      total += static_cast<double>(row.logits[j]);
      best = std::max(best, row.logits[j]);
    }
    std::size_t nearer = 0;  // equally near ones count, so that embeddings all alike hit nothing
    for (std::size_t j = 0; j < row.logits.size(); ++j)
      if (j != row.self && row.logits[j] >= best && !row.is_positive(j)) ++nearer;
    const double loss =
        static_cast<double>(log_sum) - total / static_cast<double>(row.positives[row.self]);
    if (!std::isfinite(loss)) return {.loss = loss, .num_valid = 1};
    return {.loss = loss, .num_valid = 1, .top1 = nearer < 1 ? 1 : 0, .top5 = nearer < 5 ? 1 : 0};
  }

  /// Of its own loss and of those of the views that it is compared with. Replaces the row's logits
  /// by the sums' derivatives by them.
  void add_gradient(const Row& row, std::span<const float> log_sums, float norm, double divisor,
                    std::span<float> gradient) const {
    if (norm < kLeastNorm) return;
    flat::for_each_chunk(
        [own = row.has_positives() ? 1.0F : 0.0F, log_sum = log_sums[row.self]](
            auto x, auto other_log_sum, auto positives) {
          const flat::Chunk<float> others = positives.min(1.0F);
          const flat::Chunk<float> of_others = others * (x - other_log_sum).exp();
          x = own * (x - log_sum).exp() + of_others;
        },
        row.logits, log_sums, row.positives);
    row.logits[row.self] = 0.0F;
    for (std::size_t j = 0; j < row.logits.size(); ++j)
      if (row.is_positive(j)) row.logits[j] -= 2.0F / row.positives[j];
    const auto scale = static_cast<float>(1.0 / (divisor * static_cast<double>(temperature_)));
    const Vector along = scale * (row.all.views.units.transpose() * vector_of(row.logits));
    vector_of(gradient) = (along - row.unit().dot(along) * row.unit()) / norm;
  }

  float temperature_;
};

}  // namespace

const ComponentName InfoNce::kName = {
    "infonce", "InfoNce", "Which of a step's embeddings are of the same sample, over all devices"};

void InfoNce::fields(FieldList& field) {
  field("temperature", temperature, {.min = 0, .open_min = true},
        "By which cosines of embeddings are divided");
}

std::unique_ptr<Loss> InfoNce::make() const { return std::make_unique<InfoNceLoss>(temperature); }

}  // namespace millrace::trainer::losses
