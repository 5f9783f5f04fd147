#include "trainer/update_rule.h"

#include <algorithm>
#include <array>

#include "io/base/error.h"
#include "trainer/detail/update_rules.h"

namespace millrace::trainer {
namespace {

struct Entry {
  std::string_view name;
  RuleDefaults defaults;
  std::unique_ptr<UpdateRule> (*make)(const OptimizerOptions&);
};

constexpr std::array kRules = {
    Entry{"sgd", {.lr = 0.1, .lr_batch = 128, .warmup_steps = 100, .momentum = 0.9F}, rules::sgd},
    Entry{"adam", {.lr = 1e-3}, rules::adam},
    Entry{"adamw", {.lr = 1e-3, .weight_decay = 1e-2F}, rules::adamw},
    Entry{"lars", {.lr = 4.0, .lr_batch = 128, .warmup_steps = 100, .momentum = 0.9F}, rules::lars},
};

const Entry& find(std::string_view name) {
  const auto found = std::ranges::find(kRules, name, &Entry::name);
  if (found != kRules.end()) return *found;
  std::string known;
  for (const Entry& entry : kRules) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error(ErrorCode::kInvalidArgument,
              "no optimizer is called '" + std::string(name) + "'; there are " + known);
}

}  // namespace

float UpdateRule::rate_factor(const ParameterNorms& /*norms*/) const { return 1.0F; }

std::vector<std::string> update_rule_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kRules) names.emplace_back(entry.name);
  return names;
}

RuleDefaults update_rule_defaults(std::string_view name) { return find(name).defaults; }

std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options) {
  const Entry& entry = find(options.rule);
  require(options.weight_decay >= 0.0F, "weight decay must not be negative");
  return entry.make(options);
}

}  // namespace millrace::trainer
