#include "tools/usage_text.h"

#include <fmt/format.h>

#include <regex>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/option_mark.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxError = 400;
constexpr const char* kMayBeEmpty = "may-be-empty";

struct Rule {
  const char* theirs;
  const char* ours;
};

/// The parser's confusing messages, as regular expressions.
constexpr Rule kRules[] = {
    {"^The following arguments? (was|were) not expected: (.*)", "unexpected argument $2"},
    {"^([^ ]+): At Most 1 required but received \\d+", "$1 is given more than once"},
    {"^([^ ]+): At Most (\\d+) required but received (\\d+)", "$1 takes $2 values, not $3"},
    {"^([^ ]+): At least (\\d+) required but received (\\d+)", "$1 takes $2 values, not $3"},
    {"^([^ ]+): 1 required .* missing", "$1 needs a value"},
    {"^([^ ]+): (\\d+) required .* missing", "$1 takes $2 values"},
    {"^Could not convert: ([^ ]+) = (.*)", "$1: '$2' is not valid"},
    {"^([^ ]+) requires ([^ ]+)", "$1 needs $2"},
    {"^([^ ]+) excludes ([^ ]+)", "give either $1 or $2"},
};

}  // namespace

std::string usage_text(const CLI::ParseError& error) {
  std::string text = printable(error.what(), kMaxError);
  for (const Rule& rule : kRules)
    if (const std::regex theirs(rule.theirs); std::regex_search(text, theirs))
      return std::regex_replace(text, theirs, rule.ours);
  return text;
}

CLI::Validator may_be_empty() { return mark(kMayBeEmpty); }

void check_given(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0 || is_marked(option, kMayBeEmpty)) return;
  for (const std::string& value : option.results())
    require(!value.empty(), option.get_name() + " needs a value, not an empty one");
}

}  // namespace millrace::tools
