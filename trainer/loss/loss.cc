#include "trainer/loss/loss.h"

#include <algorithm>
#include <array>
#include <string>

#include "io/base/error.h"
#include "trainer/loss/detail/losses.h"

namespace millrace::trainer {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<Loss> (*make)(const LossOptions&);
};

constexpr std::array kLosses = {
    Entry{"bce", losses::bce},
    Entry{"berhu", losses::berhu},
    Entry{"cross_entropy", losses::cross_entropy},
    Entry{"dice", losses::dice},
    Entry{"l1", losses::l1},
    Entry{"mse", losses::mse},
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
                                           std::int64_t num_classes) {
  for (std::size_t slot = 0; slot < labels.size(); ++slot) {
    if (valid[slot] != 0 && (labels[slot] < 0 || labels[slot] >= num_classes)) return slot;
  }
  return std::nullopt;
}

std::vector<std::string_view> loss_names() {
  std::vector<std::string_view> names;
  for (const Entry& entry : kLosses) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Loss> make_loss(std::string_view name, const LossOptions& options) {
  const auto found = std::ranges::find(kLosses, name, &Entry::name);
  if (found != kLosses.end()) return found->make(options);
  std::string known;
  for (const Entry& entry : kLosses) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error(ErrorCode::kInvalidArgument,
              "no loss is named " + std::string(name) + "; there are " + known);
}

}  // namespace millrace::trainer
