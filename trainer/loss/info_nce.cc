#include "trainer/loss/info_nce.h"

#include <Eigen/Core>

#include "trainer/detail/flat_chunks.h"
#include "trainer/loss/detail/embeddings.h"

namespace millrace::trainer::losses {
namespace {

class InfoNceLoss final : public detail::ContrastLoss {
 public:
  explicit InfoNceLoss(const InfoNce& options)
      : ContrastLoss("infonce", detail::contrast_of(options, 1)) {}

 private:
  void differentiate(const detail::ContrastRow& row,
                     std::span<const float> log_sums) const override {
    flat::for_each_chunk(
        [own = row.positives[row.self] > 0 ? 1.0F : 0.0F, log_sum = log_sums[row.self]](
            auto x, auto other_log_sum, auto positives) {
          const flat::Chunk<float> others = positives.min(1.0F);
          const flat::Chunk<float> of_others = others * (x - other_log_sum).exp();
          x = own * (x - log_sum).exp() + of_others;
        },
        row.logits, log_sums, row.positives);
    row.logits[row.self] = 0.0F;
    for (std::size_t j = 0; j < row.logits.size(); ++j)
      if (row.is_positive(j)) row.logits[j] -= 2.0F / row.positives[j];
  }
};

}  // namespace

const ComponentName InfoNce::kName = {
    "infonce", "InfoNce", "Which of a step's embeddings are of the same sample, over all devices"};

void InfoNce::fields(FieldList& field) { detail::list_contrast(field, *this); }

std::unique_ptr<Loss> InfoNce::make() const { return std::make_unique<InfoNceLoss>(*this); }

}  // namespace millrace::trainer::losses
