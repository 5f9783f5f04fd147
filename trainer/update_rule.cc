#include "trainer/update_rule.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/update_rules.h"

namespace millrace::trainer {
namespace {

UpdateRuleTable make_standard_rules() {
  UpdateRuleTable table;
  table.add(
      {"sgd", {.lr = 0.1, .lr_batch = 128, .warmup_steps = 100, .momentum = 0.9F}, rules::sgd});
  table.add({"adam", {.lr = 1e-3}, rules::adam});
  table.add({"adamw", {.lr = 1e-3, .weight_decay = 1e-2F}, rules::adamw});
  table.add(
      {"lars", {.lr = 4.0, .lr_batch = 128, .warmup_steps = 100, .momentum = 0.9F}, rules::lars});
  return table;
}

}  // namespace

float UpdateRule::rate_factor(const ParameterNorms& /*norms*/) const { return 1.0F; }

void UpdateRuleTable::add(UpdateRuleEntry entry) {
  require(!entry.name.empty() && entry.make, "an update rule needs a name and a factory function");
  require(std::ranges::find(entries_, entry.name, &UpdateRuleEntry::name) == entries_.end(),
          "there is an update rule called '" + entry.name + "' already");
  entries_.push_back(std::move(entry));
}

std::vector<std::string> UpdateRuleTable::names() const {
  std::vector<std::string> names;
  for (const UpdateRuleEntry& entry : entries_) names.push_back(entry.name);
  return names;
}

const UpdateRuleEntry& UpdateRuleTable::at(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &UpdateRuleEntry::name);
  if (found != entries_.end()) return *found;
  std::string known;
  for (const UpdateRuleEntry& entry : entries_) known += (known.empty() ? "" : ", ") + entry.name;
  throw Error(ErrorCode::kInvalidArgument,
              "no optimizer is called '" + std::string(name) + "'; there are " + known);
}

const std::shared_ptr<const UpdateRuleTable>& standard_update_rules() {
  static const auto table = std::make_shared<const UpdateRuleTable>(make_standard_rules());
  return table;
}

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  const UpdateRuleTable& table = options.rules ? *options.rules : *standard_update_rules();
  const UpdateRuleEntry& entry = table.at(options.rule);
  require(options.weight_decay >= 0.0F, "weight decay must not be negative");
  return entry.make(options);
}

}  // namespace millrace::trainer
