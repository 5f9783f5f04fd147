#include "trainer/update_rule.h"

#include <fnmatch.h>

#include <algorithm>

#include "io/base/error.h"
#include "trainer/detail/flat_math.h"
#include "trainer/hlo/rule_program.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/lion.h"
#include "trainer/rules/muon.h"
#include "trainer/rules/sgd.h"

namespace millrace::trainer {

const TableOf<UpdateRule>& standard_rules() {
  static const TableOf<UpdateRule> table = TableOf<UpdateRule>("optimizer")
                                               .add<Sgd>()
                                               .add<Adam>()
                                               .add<AdamW>()
                                               .add<Lion>()
                                               .add<Lars>()
                                               .add<Lamb>()
                                               .add<Muon>();
  return table;
}

const ComponentName ParameterGroup::kName = {"group", "ParameterGroup",
                                             "What some parameters have otherwise"};

void ParameterGroup::fields(FieldList& field) {
  field("parameters", parameters,
        "norms-biases, the beginning of names, or a pattern of them with *, ? and [...]");
  field.by_name();
  field("rate", rate, {.min = 0}, "Factor of the learning rate");
  field("weight_decay", weight_decay, {.min = 0}, "Instead of the rule's");
  field("after", after, {.min = 0}, "Steps of the run in which they are frozen");
  field("until", until, {.min = 0}, "The last step in which they train; 0: that of the run");
  field("falls", falls,
        "Their rate falls linearly to 0 behind `until`, in place of the schedule's");
}

void ParameterGroup::check() const {
  require(!parameters.empty(),
          "give its parameters: norms-biases, the beginning of names, or a pattern");
  require(until == 0 || until > after, "until is a step behind those of after");
  require(!falls || until > 0, "falls needs until: the last step in which they train");
}

bool ParameterGroup::has(const Parameter& parameter) const {
  if (parameters == "norms-biases") return !parameter.decay;
  if (parameters.find_first_of("*?[") == parameters.npos)
    return parameter.name.starts_with(parameters);
  return ::fnmatch(parameters.c_str(), parameter.name.c_str(), 0) == 0;
}

ParameterSettings settings_for(const Parameter& parameter, const RuleSettings& rule) {
  for (const ParameterGroup& group : rule.groups) {
    millrace::value_type(group).check(&group);  // Choice::make() checks the rule's own fields
    if (group.has(parameter))
      return {.rate = static_cast<float>(group.rate),
              .weight_decay = group.weight_decay.value_or(rule.weight_decay),
              .after = group.after,
              .until = group.until,
              .falls = group.falls};
  }
  return {.weight_decay = rule.weight_decay};
}

bool has_falling_group(const RuleSettings& rule) {
  return std::ranges::any_of(rule.groups, &ParameterGroup::falls);
}

double RuleDefaults::lr_of(bool has_norms) const {
  return has_norms || lr_without_norms == 0 ? lr : lr_without_norms;
}

double RuleSettings::lr_for(std::int64_t step_samples, bool has_norms) const {
  if (lr) return *lr;
  const double full = usual.lr_of(has_norms);
  const bool is_smaller = step_samples > 0 && step_samples < usual.lr_batch;
  return is_smaller ? full * static_cast<double>(step_samples) / static_cast<double>(usual.lr_batch)
                    : full;
}

std::optional<hlo::RuleResults> UpdateRule::stablehlo(const hlo::RuleArguments& /*of*/) const {
  return {};
}

double UpdateRule::square_sum(const RuleStep& step, const RuleBuffers& buffers) const {
  return flat::square_sum(buffers.gradients, step.gradient_scale);
}

float UpdateRule::rate_factor(const ParameterNorms& /*norms*/) const { return 1.0F; }

void list_decay_and_groups(FieldList& field, float& weight_decay,
                           std::vector<ParameterGroup>& groups) {
  field("weight_decay", weight_decay, {.min = 0}, "Weight decay");
  field("groups", groups,
        "Other values: [group(norms-biases, weight_decay=0), group(fc., rate=10)]");
}

}  // namespace millrace::trainer
