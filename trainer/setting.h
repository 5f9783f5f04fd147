// Setting: one option of a run, as its description has it: a name, a value, and for whom it is one
// and the same.
//
// From one list of settings follow what the processes of a run compare before they start, what a
// checkpoint keeps, and what a resumed run compares with it. A program makes the list from the
// description of its options; fit() describes TrainOptions itself.
//
//   std::vector<Setting> settings = {{.name = "--mean", .value = "0.5"}};
//   check_alike(cluster, settings);    // where a process has another value, all throw
//   options.settings = settings;       // and fit() saves and compares them
//
// Threads: a value type; check_alike() as Cluster.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/component/component_text.h"
#include "trainer/cluster.h"

namespace millrace::trainer {

/// For whom the value of an option is one and the same.
enum class SettingScope {
  kRun,      ///< for all processes, and for the run from its start to its end, resumed or not
  kStart,    ///< for all processes; a run that is resumed may have another
  kCall,     ///< likewise, and it is of the one start alone: where it writes, what it continues
  kProcess,  ///< for one process: its threads, its paths
};

struct Setting {
  std::string name;        ///< as users write it: "--mean", "optimizer.momentum"
  std::string value = {};  ///< empty: none
  SettingScope scope = SettingScope::kRun;
  /// False for a default, which may follow from another setting.
  bool is_given = true;
  /// Of the content of the file that the value names; empty: unknown. Two files with the same
  /// content are the same value, wherever they are.
  std::string digest = {};
  /// The measures of a validation set depend on it: with another value they cannot be compared.
  bool measures = false;
};

/// A component as settings: its word by the name `word`, of `scope`, and each field by
/// PREFIX.FIELD, which a resumed run may change. All fields: defaults change.
std::vector<Setting> component_settings(const Component& component, const std::string& word,
                                        SettingScope scope, const std::string& prefix);
/// A field's value as a setting: "0.9", "30,60" of a list, "none" of nothing and an empty list.
std::string setting_text(const Written& value);

/// What of `other` differs from `own`, a line each: "--mean: 0.1 in process 0, 0.9 in process 1".
/// `owner` and `others` say whose they are ("in process 0", "saved"). Numbers are compared as
/// numbers. Defaults that differ are left out where a given setting does.
std::vector<std::string> setting_differences(std::span<const Setting> own, std::string_view owner,
                                             std::span<const Setting> other,
                                             std::string_view others);

/// Compares the settings of all processes, but for those of scope kProcess. A collective. Throws,
/// on every process: InvalidArgument, with what differs in the first process that has others than
/// process 0.
void check_alike(Cluster& cluster, std::span<const Setting> own);

/// For checkpoints. Those of one call and of one process are left out.
std::string settings_to_json(std::span<const Setting> settings);
/// Those of before components, such as --momentum and schedule.min_lr, have the names that they
/// have now, --optimizer.momentum and schedule.to. Throws: Corrupt.
std::vector<Setting> settings_from_json(const std::string& text);

}  // namespace millrace::trainer
