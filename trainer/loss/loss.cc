#include "trainer/loss/loss.h"

#include <algorithm>
#include <array>
#include <string>

#include "io/base/error.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer {
namespace {

struct NamedLoss {
  std::string_view name;
  std::unique_ptr<Loss> (*make)(const LossOptions&);
};

constexpr std::array kLosses = {
    NamedLoss{"bce", losses::bce},
    NamedLoss{"berhu", losses::berhu},
    NamedLoss{"cross_entropy", losses::cross_entropy},
    NamedLoss{"dice", losses::dice},
    NamedLoss{"l1", losses::l1},
    NamedLoss{"mse", losses::mse},
    NamedLoss{"pixel_cross_entropy", losses::pixel_cross_entropy},
};

}  // namespace

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

std::vector<std::string_view> loss_names() {
  std::vector<std::string_view> names;
  names.reserve(kLosses.size());
  for (const NamedLoss& entry : kLosses) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Loss> make_loss(std::string_view name, const LossOptions& options) {
  const auto found = std::ranges::find(kLosses, name, &NamedLoss::name);
  if (found != kLosses.end()) return found->make(options);
  std::string known;
  for (const NamedLoss& entry : kLosses)
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error(ErrorCode::kInvalidArgument,
              "no loss is named " + std::string(name) + "; there are " + known);
}

}  // namespace millrace::trainer
