// What becomes of damaged samples, as components: what a user picks by its word.
//
//   FaultPolicy policy = *Choice<FaultPolicy>(faults::Skip{.max = FaultLimit{10}}).make();
//   policy = *parse("skip(0.01)", standard_fault_policies()).front().make();
//
// Threads: as values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "io/component/choice.h"
#include "wds/fault_ledger.h"

namespace millrace::wds {

/// How many samples of an epoch may be skipped: a number, or, with a point, a share of those read:
/// 10, 0.01.
struct FaultLimit {
  std::variant<std::int64_t, double> most = std::int64_t{0};
  bool operator==(const FaultLimit&) const = default;
};
const ValueType& value_type(const FaultLimit& limit);

namespace faults {

struct Fail {
  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<FaultPolicy> make() const;
};

struct Skip {
  std::optional<FaultLimit> max = {};  ///< none: any number

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<FaultPolicy> make() const;
};

struct Stop {
  std::optional<FaultLimit> max = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<FaultPolicy> make() const;
};

}  // namespace faults

const TableOf<FaultPolicy>& standard_fault_policies();

}  // namespace millrace::wds
