#include "wds/fault_policies.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace millrace::wds {
namespace {

constexpr double kMostSamples = 9e15;

/// A share has a point, a number of samples none.
FaultLimit read_limit(const Written& from) {
  double number = 0;
  const char* end = from.text.data() + from.text.size();
  const auto [stop, error] = std::from_chars(from.text.data(), end, number);
  if (from.kind != Written::Kind::kNumber || error != std::errc() || stop != end)
    throw Mistake(from, fmt::format("'{}' is neither a number of samples nor a share, such as 0.01",
                                    from.text));
  const bool is_share = from.text.find('.') != std::string::npos;
  if (is_share && number >= 0 && number <= 1) return {number};
  if (is_share) throw Mistake(from, fmt::format("'{}' must be a share from 0 to 1", from.text));
  if (!(number >= 0 && number < kMostSamples) || number != std::floor(number))
    throw Mistake(from, fmt::format("'{}' must be a whole number, at least 0", from.text));
  return {static_cast<std::int64_t>(number)};
}

class FaultLimitType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    *static_cast<FaultLimit*>(value) = read_limit(from);
  }
  Written write(const void* value, Form /*form*/) const override {
    const auto& most = static_cast<const FaultLimit*>(value)->most;
    const auto* samples = std::get_if<std::int64_t>(&most);
    std::string text = samples != nullptr ? fmt::format("{}", *samples)
                                          : fmt::format("{}", std::get<double>(most));
    // 1 is a sample, and 1.0 all of them.
    if (samples == nullptr && text.find('.') == std::string::npos)
      text = fmt::format("{:f}", std::get<double>(most));
    return {.kind = Written::Kind::kNumber, .text = std::move(text)};
  }
  std::string python() const override { return "int | float"; }
  std::string shown() const override { return "N|RATE"; }
};

std::unique_ptr<FaultPolicy> policy_of(OnFault on_fault, const std::optional<FaultLimit>& limit) {
  auto policy = std::make_unique<FaultPolicy>();
  policy->on_fault = on_fault;
  if (!limit) return policy;
  if (const auto* samples = std::get_if<std::int64_t>(&limit->most))
    policy->max_faults = *samples;
  else
    policy->max_fault_rate = std::get<double>(limit->most);
  return policy;
}

void limit_field(FieldList& field, std::optional<FaultLimit>& max) {
  field("max", max,
        "Samples of an epoch: a number, or a share such as 0.01; one more ends the run");
}

}  // namespace

const ValueType& value_type(const FaultLimit& /*limit*/) {
  static const FaultLimitType type;
  return type;
}

namespace faults {

const ComponentName Fail::kName = {"fail", "Fail", "The run ends"};
void Fail::fields(FieldList& /*field*/) {}
std::unique_ptr<FaultPolicy> Fail::make() const { return policy_of(OnFault::kFail, {}); }

const ComponentName Skip::kName = {"skip", "Skip", "The sample is left out"};
void Skip::fields(FieldList& field) { limit_field(field, max); }
std::unique_ptr<FaultPolicy> Skip::make() const { return policy_of(OnFault::kSkip, max); }

const ComponentName Stop::kName = {"stop", "Stop", "The shards end there"};
void Stop::fields(FieldList& field) { limit_field(field, max); }
std::unique_ptr<FaultPolicy> Stop::make() const { return policy_of(OnFault::kStop, max); }

}  // namespace faults

const TableOf<FaultPolicy>& standard_fault_policies() {
  static const TableOf<FaultPolicy> table = TableOf<FaultPolicy>("fault policy")
                                                .add<faults::Fail>()
                                                .add<faults::Skip>()
                                                .add<faults::Stop>();
  return table;
}

}  // namespace millrace::wds
