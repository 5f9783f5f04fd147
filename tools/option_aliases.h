// Options and their values by other names: those of other tools, and those that millrace had
// before. One table, which the command line and recipes (option_names.h), a run's config.json
// (config_file.h) and what checkpoints have saved (train/saved_settings.h) read alike.
//
// A component's field needs no line here: --momentum is short for --optimizer.momentum wherever no
// option is called so itself.
//
// Threads: pure functions.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace millrace::tools {

/// Another name of an option, without dashes, and what it says of the value.
struct OptionAlias {
  std::string_view name;
  std::string_view known;       ///< the first one that the command has is meant
  std::string_view unit = {};   ///< of a number without one: its 0 is nothing, and says `off`
  std::string_view value = {};  ///< of a flag that stands for a value: without it, it says `off`
  std::string_view off = {};    ///< empty: what the option itself says counts
};
std::span<const OptionAlias> option_aliases();

/// An option that is no more, and the words for what it did.
struct GoneOption {
  std::string_view name;
  std::string_view said;
};
std::span<const GoneOption> gone_options();

/// An option of other tools that has no one name here, and what to write instead.
struct ForeignOption {
  std::string_view name;
  std::string_view option;  ///< said by the commands that have this one
  std::string_view said;
};
std::span<const ForeignOption> foreign_options();

/// Another word for a value of an option; with an empty `known` it is no more, and `said` has the
/// words for it.
struct WordAlias {
  std::string_view option;
  std::string_view word;
  std::string_view known;
  std::string_view said = {};
};
std::span<const WordAlias> word_aliases();

/// An option by one of its names, and what that name says of the value: --warmup-epochs 5 is
/// --schedule.warmup 5ep.
struct KnownOption {
  std::string name = {};  ///< among those that there are, without dashes; empty: none
  std::string unit = {};  ///< as OptionAlias
  std::string value = {};
  std::string off = {};

  std::string valued(const std::string& given) const;
};
/// `name` among the names of a command's options or of a run's settings, without dashes: itself,
/// short for a component's field, or as another tool has it.
KnownOption known_among(std::span<const std::string> names, const std::string& name);
/// The first component's field that is called so, "schedule.warmup" of "warmup"; empty for none.
std::string field_among(std::span<const std::string> names, std::string_view field);

/// The value that was saved of the option called so; null if there is none.
using SavedValue = std::function<std::string*(std::string_view name)>;
/// What runs of before said by two options together, by one: warmup-exponential with --divisor as
/// step with gamma, --reduce with --reduce-precision as tree-bf16.
void join_values(const SavedValue& saved);

}  // namespace millrace::tools
