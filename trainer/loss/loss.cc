#include "trainer/loss/loss.h"

#include <algorithm>

#include "io/component/choice_type.h"
#include "trainer/hlo/loss_program.h"
#include "trainer/loss/clip.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/image_losses.h"
#include "trainer/loss/info_nce.h"
#include "trainer/loss/overlap_losses.h"
#include "trainer/loss/pixel_cross_entropy.h"
#include "trainer/loss/value_losses.h"

namespace millrace::trainer {

const TableOf<Loss>& standard_losses() {
  static const TableOf<Loss> table = TableOf<Loss>("loss")
                                         .add<losses::CrossEntropy>()
                                         .add<losses::ClassBce>()
                                         .add<losses::PixelCrossEntropy>()
                                         .add<losses::Bce>()
                                         .add<losses::Dice>()
                                         .add<losses::BceDice>()
                                         .add<losses::Tversky>()
                                         .add<losses::L1>()
                                         .add<losses::Mse>()
                                         .add<losses::Rmse>()
                                         .add<losses::BerHu>()
                                         .add<losses::Gradient>()
                                         .add<losses::Ssim>()
                                         .add<losses::InfoNce>()
                                         .add<losses::Clip>();
  return table;
}

const ValueType& value_type(const LossChoice& /*choice*/) {
  static const ChoiceType<Loss> type(standard_losses());
  return type;
}

std::optional<hlo::LossResults> Loss::stablehlo(const hlo::LossArguments& /*of*/) const {
  return {};
}

LossSums& LossSums::operator+=(const LossSums& other) {
  loss += other.loss;
  num_valid += other.num_valid;
  top1 += other.top1;
  top5 += other.top5;
  return *this;
}

std::optional<std::size_t> first_bad_label(std::span<const std::int64_t> labels,
                                           std::span<const std::uint8_t> valid,
                                           std::int64_t num_classes,
                                           std::optional<std::int64_t> ignore) {
  const std::size_t each = valid.empty() ? 0 : labels.size() / valid.size();
  for (std::size_t i = 0; each > 0 && i < labels.size(); ++i) {
    const bool known = (labels[i] >= 0 && labels[i] < num_classes) || labels[i] == ignore;
    if (!known && valid[i / each] != 0) return i;
  }
  return std::nullopt;
}

}  // namespace millrace::trainer
