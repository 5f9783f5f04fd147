#include "trainer/loss/loss.h"

#include <string>

#include "io/base/error.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer {

LossSums& LossSums::operator+=(const LossSums& other) {
  loss += other.loss;
  num_valid += other.num_valid;
  top1 += other.top1;
  top5 += other.top5;
  return *this;
}

std::optional<std::size_t> first_bad_label(std::span<const std::int64_t> labels,
                                           std::span<const std::uint8_t> valid,
                                           std::int64_t num_classes) {
  for (std::size_t slot = 0; slot < labels.size(); ++slot) {
    if (valid[slot] != 0 && (labels[slot] < 0 || labels[slot] >= num_classes)) return slot;
  }
  return std::nullopt;
}

std::unique_ptr<Loss> make_loss(std::string_view name, const LossOptions& options) {
  if (name == "cross_entropy") return losses::cross_entropy(options);
  throw Error(ErrorCode::kInvalidArgument,
              "no loss is named " + std::string(name) + "; there is cross_entropy");
}

}  // namespace millrace::trainer
