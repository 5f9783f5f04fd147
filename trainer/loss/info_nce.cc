#include "trainer/loss/info_nce.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/loss/detail/contrast_program.h"
#include "trainer/loss/detail/embeddings.h"

namespace millrace::trainer::losses {
namespace {

using detail::AllEmbeddings;
using detail::kLeastNorm;
using detail::kNever;
using detail::Lengths;
using detail::Matrix;
using detail::OwnEmbeddings;
using detail::row_of;
using detail::Vector;
using detail::vector_of;

constexpr const char* kInfoNceWord = "infonce";

/// How many positives each view has.
std::vector<float> count_positives(const std::vector<std::int64_t>& samples) {
  std::vector<float> counts = detail::count_of_sample(samples);
  for (float& count : counts) --count;
  return counts;
}

void check_positives(const AllEmbeddings& all, const std::vector<float>& positives) {
  if (std::ranges::all_of(positives, [](float count) { return count == 0; }))
    throw Error(ErrorCode::kInvalidArgument,
                "infonce: no two of the step's " + std::to_string(positives.size()) +
                    " slots are of the same sample: it needs several views of each, such as the "
                    "copies of a permutation",
                {.stage = "loss"});
  detail::check_comparable(detail::count_of_sample(all.of.samples), kInfoNceWord);
}

class InfoNceLoss final : public Loss {
 public:
  explicit InfoNceLoss(const InfoNce& options)
      : temperature_(options.learned ? 1.0F : options.temperature),
        lengths_(options.learned ? Lengths::kAsTheyAre : Lengths::kOne) {}

  TargetKind target() const override { return TargetKind::kSamples; }
  bool is_collective() const override { return true; }
  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    return detail::contrast_program(of,
                                    {.parts = 1, .temperature = temperature_, .lengths = lengths_});
  }

  LossSums evaluate(const LossInput& input) const override {
    if (input.valid.empty()) return detail::join(input.group);
    detail::check_embeddings(input, 1, kInfoNceWord);
    const OwnEmbeddings own = detail::own_embeddings(input, 1, lengths_);
    const AllEmbeddings all = detail::gather(own, input);
    const std::vector<float> positives = count_positives(all.of.samples);
    if (!input.gradient.empty() && all.is_full) check_positives(all, positives);
    Matrix logits(static_cast<Eigen::Index>(own.slots.size()),
                  static_cast<Eigen::Index>(all.of.size()));
    std::vector<float> log_sums;
    LossSums sums;
    for (std::size_t i = 0; i < own.slots.size(); ++i) {
      const Row row{all, positives, all.first_own + i, row_of(logits, i)};
      fill(row);
      log_sums.push_back(log_sum(row.logits));
      sums += one(row, log_sums.back());
    }
    if (input.gradient.empty()) return sums;
    const std::vector<float> all_log_sums = detail::gather(log_sums, input.group);
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
    const AllEmbeddings& all;
    std::span<const float> positives;  ///< of each view of all
    std::size_t self;                  ///< among all
    std::span<float> logits;           ///< to each of all; to itself minus infinity

    bool has_positives() const { return positives[self] > 0; }
    bool is_positive(std::size_t other) const {
      return other != self && all.of.samples[other] == all.of.samples[self];
    }
    auto unit() const { return all.of.rows.row(static_cast<Eigen::Index>(self)).transpose(); }
  };

  static std::size_t width_of(const AllEmbeddings& all) {
    return static_cast<std::size_t>(all.of.rows.cols());
  }

  void fill(const Row& row) const {
    vector_of(row.logits).noalias() = row.all.of.rows * row.unit();
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
    if (lengths_ == Lengths::kOne && norm < kLeastNorm) return;
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
    const Vector along = scale * (row.all.of.rows.transpose() * vector_of(row.logits));
    if (lengths_ == Lengths::kOne)
      vector_of(gradient) = (along - row.unit().dot(along) * row.unit()) / norm;
    else
      vector_of(gradient) = along;
  }

  float temperature_;
  Lengths lengths_;
};

}  // namespace

const ComponentName InfoNce::kName = {
    "infonce", "InfoNce", "Which of a step's embeddings are of the same sample, over all devices"};

void InfoNce::fields(FieldList& field) {
  field("temperature", temperature, {.min = 0, .open_min = true},
        "By which cosines of embeddings are divided");
  field("learned", learned,
        "The model has a layer that scales them, by a temperature that it learns");
}

std::unique_ptr<Loss> InfoNce::make() const { return std::make_unique<InfoNceLoss>(*this); }

}  // namespace millrace::trainer::losses
