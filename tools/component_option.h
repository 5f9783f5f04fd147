// ComponentOption: an option whose value is a component: `--optimizer 'sgd(0.1, momentum=0.9)'`.
//
//   ComponentOption optimizer_{"optimizer", trainer::standard_rules(), Rule(trainer::Sgd())};
//   optimizer_.declare(app, "The update rule of the weights");
//   optimizer_.settle();                                   // once the words are parsed
//   const trainer::Rule rule(optimizer_.component());
//
// Each field of the table's components is an option too, which sets that field alone of what the
// recipe or the command line chose: `--optimizer.momentum 0.8`, and short `--momentum 0.8`, where
// no option has that name. --help has the first form alone; `--help sgd` the fields, `--help
// aliases` the short forms and other words (tools/option_aliases.h). Settings have the component's
// word, and each field by its own name (tools/option_settings.h).
//
// Threads: one at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/component/component_text.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace millrace::tools {

class ComponentOption {
 public:
  /// `table` is borrowed. `usual` is chosen unless another is given.
  ComponentOption(std::string name, const Table& table, const Component& usual);
  ComponentOption(const ComponentOption&) = delete;
  ComponentOption& operator=(const ComponentOption&) = delete;

  /// Whether a run that is resumed may have other values of the fields: of the word the caller
  /// says.
  enum class Fields { kMayChange, kOfRun };
  /// Returns --NAME. Lifetime: until `app` ends.
  CLI::Option* declare(CLI::App& app, const std::string& sentence,
                       Fields fields = Fields::kMayChange);
  /// Whether the words or a file give the component, or a field of it.
  bool is_given() const;
  bool is_given(std::string_view field) const;
  /// The text that the field's own option was given; empty if it was not.
  std::string given_text(std::string_view field) const;
  /// Another usual component than declared, where that depends on other options. Before settle().
  void set_usual(const Component& usual);

  /// Puts the call and the fields that were given together. Throws: InvalidArgument for a field
  /// that the component does not have, and for fields that contradict each other.
  void settle();
  const Component& component() const { return component_; }
  std::string_view word() const { return component_.type().name().word; }
  /// Whether the component has the field, and it has no value: "lr" of sgd unless it is given.
  bool is_open(std::string_view field) const;
  /// Sets a field to what the run decides. Requires: the component has it.
  void set(std::string_view field, const std::string& value);

 private:
  struct FieldOption {
    CLI::Option* option = nullptr;
    std::string text = {};
    bool flag = false;  ///< the value, where the field is a bool
  };

  void declare_field(CLI::App& app, const Field& field, Fields fields);
  std::string field_problem(const std::string& field, const std::string& text) const;
  std::string owners(const std::string& field) const;
  Written read_call(const std::string& given) const;
  void put(Written& call, const std::string& field, const std::string& given) const;
  void take(const Written& call);
  bool overrides(CLI::Option& field) const;
  void show();

  std::string name_;
  const Table& table_;
  Component component_;
  std::string text_;
  CLI::Option* word_option_ = nullptr;
  std::map<std::string, FieldOption> fields_ = {};  ///< by the field's name
};

/// What `--help TOPIC` prints of the components in `tables`; empty if there is none called so.
std::string component_help(std::string_view topic, std::span<const Table* const> tables);

}  // namespace millrace::tools
