#include "tools/fault_options.h"

#include <CLI/App.hpp>
#include <utility>

#include "tools/option_settings.h"

namespace millrace::tools {

void FaultOptions::declare(CLI::App& app) {
  on_fault_.emplace("on-fault", table(), Choice<wds::FaultPolicy>(wds::faults::Fail()));
  on_fault_
      ->declare(
          app,
          "What to do about a damaged sample: fail, end the run; skip, leave it out, skip(10) or "
          "skip(0.01) at most so many of an epoch, of a run's processes together; stop, read no "
          "further")
      ->check(may_change());
  declare_leniency(app);
}

void FaultOptions::declare_for_survey(CLI::App& app) {
  chosen_.on_fault = wds::OnFault::kSkip;
  declare_leniency(app);
}

void FaultOptions::declare_leniency(CLI::App& app) {
  app.add_flag("--lenient", lenient,
               "Accept interleaved keys, and a missing end marker between two samples")
      ->check(may_change());
  app.add_flag("--concatenated", concatenated,
               "Continue after an end marker if another archive follows (cat a.tar b.tar)")
      ->check(may_change());
  app.add_flag(
         "--require-index", require_index,
         "Treat a missing or damaged index as a fault, instead of reading its shard without it")
      ->check(may_change());
  app.add_flag("--tolerate-truncated", tolerate_truncated,
               "Decode damaged and truncated JPEGs as far as possible instead of failing")
      ->check(may_change());
}

void FaultOptions::settle() {
  if (!on_fault_) return;
  on_fault_->settle();
  chosen_ = *Choice<wds::FaultPolicy>(on_fault_->component()).make();
}

wds::FaultPolicy FaultOptions::policy() const {
  wds::FaultPolicy policy = chosen_;
  policy.lenient = lenient;
  policy.concatenated = concatenated;
  policy.require_index = require_index;
  policy.said = said_;
  return policy;
}

wds::ShardOptions FaultOptions::shard_options(std::stop_token stop) const {
  wds::ShardOptions options{.lenient = lenient, .stop = std::move(stop)};
  if (concatenated) options.tar.behind_end = wds::BehindEnd::kRead;
  return options;
}

}  // namespace millrace::tools
