#include "trainer/loss/clip.h"

#include <cmath>

#include "trainer/loss/detail/embeddings.h"

namespace millrace::trainer::losses {
namespace {

class ClipLoss final : public detail::ContrastLoss {
 public:
  explicit ClipLoss(const Clip& options)
      : ContrastLoss("clip", detail::contrast_of(options, kTowers)) {}

 private:
  static constexpr std::size_t kTowers = 2;

  void differentiate(const detail::ContrastRow& row,
                     std::span<const float> log_sums) const override {
    const float own = log_sums[kTowers * row.self + row.part];
    for (std::size_t j = 0; j < row.logits.size(); ++j) {
      const float x = row.logits[j];
      const float wanted = row.is_positive(j) ? 2.0F / row.positives[row.self] : 0.0F;
      row.logits[j] =
          std::exp(x - own) + std::exp(x - log_sums[kTowers * j + 1 - row.part]) - wanted;
    }
  }
};

}  // namespace

const ComponentName Clip::kName = {
    "clip", "Clip", "Which embedding of one tower is of the same sample as one of the other's"};

void Clip::fields(FieldList& field) { detail::list_contrast(field, *this); }

std::unique_ptr<Loss> Clip::make() const { return std::make_unique<ClipLoss>(*this); }

}  // namespace millrace::trainer::losses
