#include "tools/component_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <set>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "tools/help.h"
#include "tools/option_aliases.h"
#include "tools/option_settings.h"
#include "trainer/setting.h"

namespace millrace::tools {
namespace {

using Kind = Written::Kind;

/// Bytes of a text and of what is wrong with it.
constexpr std::size_t kShownOfCall = 160;

/// The line of help of the call that the mistake is in.
std::string usage_there(const Written& calls, const Mistake& mistake, const Table& table) {
  for (const Written& call : calls.items) {
    if (mistake.begin < call.begin || mistake.begin >= call.end) continue;
    for (const Component& one : table.all())
      if (plain_name(one.type().name().word) == plain_name(call.text))
        return " (" + usage(one.type()) + ")";
  }
  return {};
}

/// Throws: Mistake for a word that is no more.
void replace_words(Written& calls, std::string_view option) {
  for (Written& call : calls.items) {
    const auto other = std::ranges::find_if(word_aliases(), [&](const WordAlias& one) {
      return one.option == option && plain_name(one.word) == plain_name(call.text);
    });
    if (other == word_aliases().end()) continue;
    if (other->known.empty()) throw Mistake(call, std::string(other->said));
    call.text = other->known;
    if (call.kind == Kind::kNone) call.kind = Kind::kWord;
  }
}

[[noreturn]] void refuse_call(const std::string& text, const Mistake& mistake,
                              const std::string& usage) {
  const bool is_call = text.find_first_of("(,") != std::string::npos;
  const std::string place =
      is_call ? fmt::format("'{}', column {}: ", printable(text, kShownOfCall), mistake.begin + 1)
              : std::string();
  throw Error(ErrorCode::kInvalidArgument,
              place + printable(mistake.message(), kShownOfCall) + usage);
}

bool is_list(const Field& field) {
  return field.type->write(field.value, ValueType::Form::kWhole).kind == Kind::kList;
}

bool is_bare_word(const Field& field) { return field.type == &value_type(bool()); }

/// As TOML has numbers: 1_000.
std::string without_separators(std::string text) {
  if (text.find_first_not_of("0123456789+-._eE") == std::string::npos) std::erase(text, '_');
  return text;
}

/// A list may go without its brackets: 30,60.
/// Whether `text` is one value in quotes, as in a call.
bool is_quoted(const std::string& text) {
  try {
    return text.find_first_of("\"'") == 0 && written_calls(text).items.size() == 1;
  } catch (const Mistake&) {
    return false;
  }
}

Written field_value(const std::string& text, const Field& field) {
  // A text is taken as it is, with its spaces and signs.
  if (field.type == &value_type(std::string()) && !is_quoted(text))
    return {.kind = Written::Kind::kWord, .text = text, .end = text.size()};
  Written all = written_calls(without_separators(text));
  const bool is_one = all.items.size() == 1;
  if (is_list(field))
    return is_one && all.items.front().kind == Kind::kList ? all.items.front() : all;
  if (!is_one) throw Mistake(all, "takes one value");
  return all.items.front();
}

/// "weight-decay" of "weight_decay", as options are spelt.
std::string spelt_field(std::string_view name) {
  std::string spelt(name);
  std::ranges::replace(spelt, '_', '-');
  return spelt;
}

bool is_word_of(const Table& table, std::string_view word) {
  const auto words = table.words();
  return std::ranges::any_of(
      words, [&](const std::string& one) { return plain_name(one) == plain_name(word); });
}

bool has_field(const Component& component, std::string_view name) {
  const std::vector<Field> fields = component.type().fields(component.value());
  return std::ranges::find(fields, name, &Field::name) != fields.end();
}

/// Gives each argument of a call its name.
void name_arguments(Written& call, const std::vector<Field>& fields) {
  std::size_t at = 0;
  for (Written& argument : call.items) {
    if (!argument.name.empty()) continue;
    const auto named = std::ranges::find(fields, argument.text, &Field::name);
    if (argument.kind == Kind::kWord && named != fields.end() && is_bare_word(*named)) {
      argument.name = argument.text;
      argument.kind = Kind::kBool;
      argument.text = "true";
    } else {
      argument.name = fields.at(at++).name;
    }
  }
}

/// Calls `done` with the field of that name in a copy of each of the table's components.
template <typename Done>
void for_each_owner(const Table& table, const std::string& name, Done done) {
  for (const Component& one : table.all()) {
    const auto copy = one.held().clone();
    for (const Field& field : copy->type().fields(copy->value()))
      if (field.name == name) done(one, field);
  }
}

}  // namespace

ComponentOption::ComponentOption(std::string name, const Table& table, const Component& usual)
    : name_(std::move(name)), table_(table), component_(usual), text_(text(usual)) {}

CLI::Option* ComponentOption::declare(CLI::App& app, const std::string& sentence, Fields fields) {
  word_option_ = app.add_option("--" + name_, text_, sentence);
  for (const Component& one : table_.all())
    for (const Field& field : one.type().fields(one.value()))
      if (!fields_.contains(std::string(field.name))) declare_field(app, field, fields);
  return word_option_->type_name(fmt::format("CALL:{{{}}}", fmt::join(table_.words(), ",")))
      ->check(CLI::Validator(
          [this](std::string& given) {
            try {
              static_cast<void>(read_call(given));
              return std::string();
            } catch (const Error& error) {
              return error.message();
            }
          },
          ""))
      ->check(of_component(ComponentPart::kWord));
}

/// The call, each argument by its name. What is wrong with it as a whole, a field that is missing,
/// other options may put right: only settle() refuses that.
Written ComponentOption::read_call(const std::string& given) const {
  Written calls;
  try {
    calls = written_calls(given);
    replace_words(calls, name_);
    require(calls.items.size() == 1,
            fmt::format("one {} at a time, not {}", table_.kind(), calls.items.size()));
    static_cast<void>(table_.at(calls.items.front()));
    static_cast<void>(component_of(calls.items.front(), table_));
  } catch (const Mistake& mistake) {
    const bool is_known = calls.items.size() == 1 && is_word_of(table_, calls.items.front().text);
    if (!is_known || mistake.begin != calls.items.front().begin)
      refuse_call(given, mistake, usage_there(calls, mistake, table_));
  }
  Written call = calls.items.front();
  const Component& usual = table_.at(call);
  name_arguments(call, usual.type().fields(usual.value()));
  call.kind = Kind::kCall;
  return call;
}

bool ComponentOption::is_given() const { return word_option_->count() > 0; }

bool ComponentOption::is_given(std::string_view field) const {
  const auto found = fields_.find(std::string(field));
  return found != fields_.end() && found->second.option->count() > 0;
}

std::string ComponentOption::given_text(std::string_view field) const {
  if (!is_given(field)) return {};
  const std::string& text = fields_.at(std::string(field)).text;
  return is_quoted(text) ? written_calls(text).items.front().text : text;
}

void ComponentOption::set_usual(const Component& usual) {
  if (!is_given()) text_ = text(usual);
}

void ComponentOption::declare_field(CLI::App& app, const Field& field, Fields fields) {
  const std::string name(field.name);
  const std::string names = "--" + name_ + "." + spelt_field(name);
  FieldOption& own = fields_[name];
  const std::string sentence(field.sentence);
  own.option =
      is_bare_word(field)
          ? app.add_flag(names, own.flag, sentence)
          : app.add_option(names, own.text, sentence)
                ->type_name(field.type->shown())
                ->check(CLI::Validator(
                    [this, name](std::string& given) { return field_problem(name, given); }, ""));
  const std::string usual =
      trainer::setting_text(field.type->write(field.value, ValueType::Form::kWhole));
  if (!is_bare_word(field)) own.option->default_str(usual == "none" ? "" : usual);
  own.option->group(kHiddenGroup)->check(of_component(ComponentPart::kField));
  if (fields == Fields::kMayChange) own.option->check(may_change());
}

/// What is wrong with the text; empty if one of the components that have the field takes it.
std::string ComponentOption::field_problem(const std::string& field,
                                           const std::string& given) const {
  std::string problem;
  bool fits = false;
  for_each_owner(table_, field, [&](const Component& /*one*/, const Field& there) {
    try {
      const Written value = field_value(given, there);
      there.type->read(value, there.value);
      fits = fits || there.in_range();
      if (!there.in_range()) {
        const std::string range = there.range.text();
        problem = "must be " + (range.empty() ? "a finite number" : range);
      }
    } catch (const Mistake& mistake) {
      problem = mistake.message();
    }
  });
  if (fits) return {};
  if (!problem.starts_with("'" + given)) problem = fmt::format("'{}': {}", given, problem);
  return printable(problem, kShownOfCall);
}

/// "sgd and lars".
std::string ComponentOption::owners(const std::string& field) const {
  std::vector<std::string_view> words;
  for_each_owner(table_, field, [&](const Component& one, const Field& /*there*/) {
    words.push_back(one.type().name().word);
  });
  const std::string last(words.back());
  words.pop_back();
  return words.empty() ? last : fmt::format("{} and {}", fmt::join(words, ", "), last);
}

/// Requires: component_ is of the call's type.
void ComponentOption::put(Written& call, const std::string& field, const std::string& given) const {
  require(has_field(component_, field),
          fmt::format("--{}.{} is a parameter of {}, not of {}", name_, spelt_field(field),
                      owners(field), usage(component_.type())));
  const std::vector<Field> fields = component_.type().fields(component_.value());
  const auto there = std::ranges::find(fields, field, &Field::name);
  std::erase_if(call.items, [&](const Written& one) { return one.name == field; });
  call.items.push_back(field_value(given, *there));
  call.items.back().name = field;
}

void ComponentOption::take(const Written& call) {
  try {
    component_ = component_of(call, table_);
  } catch (const Mistake& mistake) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--{}: {} ({})", name_, mistake.message(), usage(component_.type())));
  }
}

void ComponentOption::settle() {
  Written call = read_call(text_);
  component_ = table_.at(call);
  std::set<std::string> in_call;
  for (const Written& argument : call.items) in_call.insert(argument.name);
  for (const auto& [name, field] : fields_) {
    const bool is_of_call = in_call.contains(name);
    if ((is_of_call || !has_field(component_, name)) && overrides(*field.option))
      field.option->clear();
    if (field.option->count() == 0) continue;
    const bool is_bool = field.option->get_items_expected_max() == 0;
    put(call, name, is_bool ? field.flag ? "true" : "false" : field.text);
  }
  take(call);
  show();
  for (const std::string& name : in_call)
    if (FieldOption& field = fields_.at(name); field.option->count() == 0)
      field.option->add_result(field.text);
}

/// Whether the call is the command line's, and the field a file's: then what the call gives counts,
/// and what its component does not have was meant for the file's.
bool ComponentOption::overrides(CLI::Option& field) const {
  return word_option_->count() > 0 && !is_from_file(*word_option_) && is_from_file(field);
}

bool ComponentOption::is_open(std::string_view field) const {
  const Written whole = written(component_);
  const auto found = std::ranges::find(whole.items, field, &Written::name);
  return found != whole.items.end() && found->kind == Kind::kNone;
}

void ComponentOption::set(std::string_view field, const std::string& value) {
  Written whole = written(component_);
  put(whole, std::string(field), value);
  take(whole);
  show();
}

/// What the component is now is what settings and config.json say.
void ComponentOption::show() {
  const Written whole = written(component_);
  text_ = text(whole);
  for (auto& [name, field] : fields_) {
    field.text.clear();
    field.flag = false;
  }
  for (const Written& item : whole.items) {
    FieldOption& field = fields_.at(item.name);
    Written value = item;
    value.name.clear();
    field.text = trainer::setting_text(value);
    field.flag = item.kind == Kind::kBool && item.text == "true";
  }
}

std::string component_help(std::string_view topic, std::span<const Table* const> tables) {
  const std::string plain = plain_name(topic);
  std::string text;
  for (const Table* table : tables) {
    if (plain == plain_name(table->kind())) text += help(*table);
    for (const Component& one : table->all()) {
      const ComponentName& name = one.type().name();
      if (plain == plain_name(name.word) || plain == plain_name(name.python))
        text += help(one.type());
    }
  }
  return text;
}

}  // namespace millrace::tools
