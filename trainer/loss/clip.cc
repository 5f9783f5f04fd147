#include "trainer/loss/clip.h"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>

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
using detail::Vector;
using detail::vector_of;

constexpr const char* kClipWord = "clip";
constexpr std::size_t kTowers = 2;

float log_sum_of(std::span<const float> logits) {
  const float top = flat::whole(logits).maxCoeff();
  const double sum = flat::sum_over([top](auto x) { return (x - top).exp(); }, logits);
  return top + static_cast<float>(std::log(sum));
}

class ClipLoss final : public Loss {
 public:
  explicit ClipLoss(const Clip& options)
      : temperature_(options.learned ? 1.0F : options.temperature),
        lengths_(options.learned ? Lengths::kAsTheyAre : Lengths::kOne) {}

  TargetKind target() const override { return TargetKind::kSamples; }
  bool is_collective() const override { return true; }
  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
    return detail::contrast_program(
        of, {.parts = kTowers, .temperature = temperature_, .lengths = lengths_});
  }

  LossSums evaluate(const LossInput& input) const override {
    if (input.valid.empty()) return detail::join(input.group);
    detail::check_embeddings(input, kTowers, kClipWord);
    const OwnEmbeddings own = detail::own_embeddings(input, kTowers, lengths_);
    const AllEmbeddings all = detail::gather(own, input);
    const std::vector<float> of_sample = detail::count_of_sample(all.of.samples);
    if (!input.gradient.empty() && all.is_full) detail::check_comparable(of_sample, kClipWord);
    std::array<Matrix, kTowers> logits;
    for (Matrix& of : logits)
      of.resize(static_cast<Eigen::Index>(own.slots.size()),
                static_cast<Eigen::Index>(all.of.size()));
    std::vector<float> log_sums;  // of each slot one for each tower
    LossSums sums;
    for (std::size_t i = 0; i < own.slots.size(); ++i) {
      sums.num_valid += 1;
      for (std::size_t tower = 0; tower < kTowers; ++tower) {
        const Row row{all, of_sample, tower, all.first_own + i, detail::row_of(logits[tower], i)};
        fill(row);
        log_sums.push_back(log_sum_of(row.logits));
        sums += one(row, log_sums.back());
      }
    }
    if (input.gradient.empty()) return sums;
    const std::vector<float> all_log_sums = detail::gather(log_sums, input.group);
    std::ranges::fill(input.gradient, 0.0F);
    const std::size_t width = width_of(all);
    for (std::size_t i = 0; i < own.slots.size(); ++i)
      for (std::size_t tower = 0; tower < kTowers; ++tower) {
        const Row row{all, of_sample, tower, all.first_own + i, detail::row_of(logits[tower], i)};
        set_gradient(row, all_log_sums, own.norms[kTowers * i + tower], input.divisor,
                     input.gradient.subspan((kTowers * own.slots[i] + tower) * width, width));
      }
    return sums;
  }

 private:
  /// An embedding of this rank beside those of all that the other tower made.
  struct Row {
    const AllEmbeddings& all;
    std::span<const float> of_sample;  ///< how many slots of all the sample of each has
    std::size_t tower;
    std::size_t self;         ///< among all
    std::span<float> logits;  ///< to each of all

    bool is_positive(std::size_t slot) const {
      return all.of.samples[slot] == all.of.samples[self];
    }
    /// Of length 1, or as the model scales it.
    auto embedding() const {
      return of_tower(tower).row(static_cast<Eigen::Index>(self)).transpose();
    }
    auto others() const { return of_tower(1 - tower); }

   private:
    Eigen::Block<const Matrix> of_tower(std::size_t which) const {
      const Eigen::Index width = all.of.rows.cols() / static_cast<Eigen::Index>(kTowers);
      return {all.of.rows, 0, static_cast<Eigen::Index>(which) * width, all.of.rows.rows(), width};
    }
  };

  /// Of one tower's embedding.
  static std::size_t width_of(const AllEmbeddings& all) {
    return static_cast<std::size_t>(all.of.rows.cols()) / kTowers;
  }

  void fill(const Row& row) const {
    vector_of(row.logits).noalias() = row.others() * row.embedding();
    flat::whole(row.logits) /= temperature_;
  }

  /// A tower's half of a slot's loss; the first one's tells whether the caption is near.
  static LossSums one(const Row& row, float log_sum) {
    double total = 0;
    float best = kNever;
    for (std::size_t j = 0; j < row.logits.size(); ++j) {
      if (!row.is_positive(j)) continue;
      total += static_cast<double>(row.logits[j]);
      best = std::max(best, row.logits[j]);
    }
    const double loss =
        static_cast<double>(log_sum) - total / static_cast<double>(row.of_sample[row.self]);
    if (row.tower != 0 || !std::isfinite(loss)) return {.loss = loss / 2};
    std::size_t nearer = 0;  // equally near ones count, so that embeddings all alike hit nothing
    for (std::size_t j = 0; j < row.logits.size(); ++j)
      if (row.logits[j] >= best && !row.is_positive(j)) ++nearer;
    return {.loss = loss / 2, .top1 = nearer < 1 ? 1 : 0, .top5 = nearer < 5 ? 1 : 0};
  }

  /// Of its own loss and of those of the embeddings that it is compared with. Replaces the row's
  /// logits by the sums' derivatives by them.
  void set_gradient(const Row& row, std::span<const float> log_sums, float norm, double divisor,
                    std::span<float> gradient) const {
    if (lengths_ == Lengths::kOne && norm < kLeastNorm) return;
    const float own = log_sums[kTowers * row.self + row.tower];
    for (std::size_t j = 0; j < row.logits.size(); ++j) {
      const float x = row.logits[j];
      const float wanted = row.is_positive(j) ? 2.0F / row.of_sample[row.self] : 0.0F;
      row.logits[j] =
          std::exp(x - own) + std::exp(x - log_sums[kTowers * j + 1 - row.tower]) - wanted;
    }
    const auto scale = static_cast<float>(0.5 / (divisor * static_cast<double>(temperature_)));
    const Vector along = scale * (row.others().transpose() * vector_of(row.logits));
    if (lengths_ == Lengths::kOne)
      vector_of(gradient) = (along - row.embedding().dot(along) * row.embedding()) / norm;
    else
      vector_of(gradient) = along;
  }

  float temperature_;
  Lengths lengths_;
};

}  // namespace

const ComponentName Clip::kName = {
    "clip", "Clip", "Which embedding of one tower is of the same sample as one of the other's"};

void Clip::fields(FieldList& field) {
  field("temperature", temperature, {.min = 0, .open_min = true},
        "By which cosines of embeddings are divided");
  field("learned", learned,
        "The model has a layer that scales them, by a temperature that it learns");
}

std::unique_ptr<Loss> Clip::make() const { return std::make_unique<ClipLoss>(*this); }

}  // namespace millrace::trainer::losses
