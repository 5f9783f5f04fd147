#include "wds/sample_filter.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxExpression = 1 << 14;
constexpr int kMaxLevels = 64;

enum class Op {
  kValue,  ///< of the sample
  kLiteral,
  kEqual,
  kUnequal,
  kLess,
  kAtMost,
  kMore,
  kAtLeast,
  kIn,
  kContains,
  kMatches,
  kAnd,
  kOr,
  kNot,
};

constexpr std::array<std::pair<std::string_view, Op>, 9> kComparisons = {
    {{"==", Op::kEqual},
     {"!=", Op::kUnequal},
     {"<=", Op::kAtMost},
     {">=", Op::kAtLeast},
     {"<", Op::kLess},
     {">", Op::kMore},
     {"in", Op::kIn},
     {"contains", Op::kContains},
     {"matches", Op::kMatches}}};

}  // namespace

struct SampleFilter::Node {
  Op op = Op::kLiteral;
  std::vector<Node> parts = {};
  Json literal = {};
  std::string suffix = {};      ///< of a value; empty: the key
  bool is_json = false;         ///< whether the field is parsed
  std::vector<Json> path = {};  ///< members' names and numbers in it
  /// Of a value: whether it was looked for, and whether a sample had it.
  struct Sightings {
    std::atomic<bool> asked = false;
    std::atomic<bool> found = false;
  };
  std::shared_ptr<Sightings> seen = {};
};

namespace {

using Node = SampleFilter::Node;

template <typename Number>
std::optional<Number> parsed_as(std::string_view text) {
  Number value{};
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && stop == text.data() + text.size()) return value;
  return {};
}

/// Null for what is none; "nan" and "inf" are texts. Whole numbers are exact.
Json number_of(std::string_view text) {
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  if (first >= text.size() || text.find_first_of("0123456789.", first) != first) return {};
  if (const auto whole = parsed_as<std::int64_t>(text)) return *whole;
  if (const auto large = parsed_as<std::uint64_t>(text)) return *large;
  if (const auto real = parsed_as<double>(text)) return *real;
  return {};
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// or := and {"or" and}; and := not {"and" not}; not := "not" not | comparison;
/// comparison := operand [operator operand]; operand := "(" or ")" | literal | value.
class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : text_(text) {
    if (text.size() > kMaxExpression) refuse("it is too long");
  }

  Node whole() {
    Node node = any_of();
    if (!at_end()) refuse("expected the end here");
    return node;
  }

  Node value_alone() {
    at_end();
    Node node = operand();
    if (node.op != Op::kValue || !at_end())
      refuse("expected one value's name, such as cls or json.score");
    return node;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("'{}', column {}: {}", printable(text_, 200), at_ + 1, what));
  }

  /// The expression with `words` here.
  std::string with_inserted(std::string_view words) const {
    return fmt::format("{}{}{}", text_.substr(0, at_), words, text_.substr(at_));
  }

  bool at_end() {
    at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
    return at_ == text_.size();
  }

  /// Takes `word`, which no name goes on from.
  bool take(std::string_view word) {
    at_end();
    if (!text_.substr(at_).starts_with(word)) return false;
    const std::size_t end = at_ + word.size();
    if (is_name(word.front()) && end < text_.size() && (is_name(text_[end]) || text_[end] == '.'))
      return false;
    at_ = end;
    return true;
  }

  Node joined(Op op, Node first, Node second) {
    Node node{.op = op};
    node.parts.push_back(std::move(first));
    node.parts.push_back(std::move(second));
    return node;
  }

  Node any_of() {
    if (++level_ > kMaxLevels) refuse("it is nested too deep");
    Node node = all_of();
    while (take("or") || take("||")) node = joined(Op::kOr, std::move(node), all_of());
    --level_;
    return node;
  }

  Node all_of() {
    Node node = negation();
    while (take("and") || take("&&")) node = joined(Op::kAnd, std::move(node), negation());
    return node;
  }

  Node negation() {
    if (++level_ > kMaxLevels) refuse("it is nested too deep");
    Node node;
    if (take("not") || (!text_.substr(at_).starts_with("!=") && take("!"))) {
      node.op = Op::kNot;
      node.parts.push_back(negation());
    } else {
      node = comparison();
    }
    --level_;
    return node;
  }

  Node comparison() {
    Node left = operand();
    if (take("not")) {
      if (!take("in")) refuse("expected 'in' here");
      Node inverse{.op = Op::kNot};
      inverse.parts.push_back(joined(Op::kIn, std::move(left), operand()));
      return inverse;
    }
    for (const auto& [word, op] : kComparisons)
      if (take(word)) return joined(op, std::move(left), operand());
    if (!at_end() && text_[at_] == '=')
      refuse("= compares nothing: write " + printable(with_inserted("="), 200));
    return left;
  }

  Node operand() {
    if (at_end()) refuse("expected a value");
    if (take("(")) {
      Node node = any_of();
      if (!take(")")) refuse("expected a )");
      return node;
    }
    if (auto literal = any_literal()) return {.op = Op::kLiteral, .literal = *std::move(literal)};
    if (!is_name(text_[at_])) refuse("expected a value");
    return sample_value();
  }

  std::optional<Json> any_literal() {
    if (take("true")) return true;
    if (take("false")) return false;
    if (take("null") || take("none")) return Json();
    const char first = text_[at_];
    if (first == '\'' || first == '"') return quoted();
    if (first == '[') return list();
    if (first == '-' || first == '+' || first == '.' || (first >= '0' && first <= '9'))
      return number();
    return {};
  }

  Json quoted() {
    const char quote = text_[at_];
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) refuse("a text that is not closed");
    const std::string text(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return text;
  }

  Json number() {
    const std::size_t begin = at_ + (text_[at_] == '+' ? 1 : 0);
    const std::size_t end =
        std::min(text_.find_first_not_of("0123456789.eE+-_", begin), text_.size());
    std::string digits(text_.substr(begin, end - begin));
    std::erase(digits, '_');
    Json value = number_of(digits);
    if (value.is_null()) refuse("expected a number");
    at_ = end;
    return value;
  }

  Json list() {
    take("[");
    Json items = Json::array();
    if (take("]")) return items;
    do {
      if (at_end()) refuse("a list that is not closed");
      auto item = any_literal();
      if (!item) refuse("expected a number or a 'text'");
      items.push_back(*std::move(item));
    } while (take(","));
    if (!take("]")) refuse("expected a , or a ]");
    return items;
  }

  std::string name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == begin) refuse("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  // The field's suffix ends with its first part that is json; else it is all of it.
  Node sample_value() {
    Node node{.op = Op::kValue};
    std::string part = name();
    for (;;) {
      if (node.is_json)
        node.path.emplace_back(part);
      else
        node.suffix += (node.suffix.empty() ? "" : ".") + part;
      node.is_json = node.is_json || part == "json" || part == "jsn";
      while (node.is_json && at_ < text_.size() && text_[at_] == '[') node.path.push_back(place());
      if (at_ >= text_.size() || text_[at_] != '.') break;
      ++at_;
      part = name();
    }
    if (node.suffix == "key") node.suffix.clear();
    std::transform(node.suffix.begin(), node.suffix.end(), node.suffix.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return node;
  }

  Json place() {
    ++at_;
    at_end();
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    Json found = first == '\'' || first == '"' ? quoted() : Json(std::stoul(digits()));
    if (!take("]")) refuse("expected a ]");
    return found;
  }

  std::string digits() {
    const std::size_t end = std::min(text_.find_first_not_of("0123456789", at_), text_.size());
    if (end == at_ || end - at_ > 9) refuse("expected a number or a 'name'");
    const std::string found(text_.substr(at_, end - at_));
    at_ = end;
    return found;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int level_ = 0;
};

void add_suffixes(const Node& node, std::vector<std::string>& suffixes) {
  if (node.op == Op::kValue && !node.suffix.empty() &&
      std::find(suffixes.begin(), suffixes.end(), node.suffix) == suffixes.end())
    suffixes.push_back(node.suffix);
  for (const Node& part : node.parts) add_suffixes(part, suffixes);
}

/// What an expression's part comes to.
struct Value {
  Json json = {};
  /// Of a field that is a number: what it is written as, "007"; else empty.
  std::string written = {};
};

/// A sample's values, each field parsed once.
class Values {
 public:
  explicit Values(const Sample& sample) : sample_(sample) {}

  Value of(const Node& node) {
    if (node.suffix.empty()) return {.json = sample_.key};
    Value value = in_sample(node);
    if (node.seen) {
      if (!node.seen->asked) node.seen->asked = true;
      if (!value.json.is_null() && !node.seen->found) node.seen->found = true;
    }
    return value;
  }

 private:
  Value in_sample(const Node& node) {
    const Field* field = sample_.find(node.suffix);
    if (field == nullptr) return {};
    try {
      if (node.is_json) return {.json = member(parsed(node.suffix, *field), node.path)};
      return plain(field->data.text());
    } catch (Error& error) {
      const auto& url = field->url ? field->url : sample_.url;
      error.annotate({.url = url ? io::printable_url(*url) : "",
                      .key = sample_.key,
                      .member = sample_.key + "." + node.suffix,
                      .offset = field->offset});
      throw;
    }
  }

  const Json& parsed(const std::string& suffix, const Field& field) {
    const auto found = fields_.find(suffix);
    if (found != fields_.end()) return found->second;
    return fields_.emplace(suffix, parse_json<Json>(field.data.text(), "json")).first->second;
  }

  static Json member(const Json& json, const std::vector<Json>& path) {
    const Json* at = &json;
    for (const Json& step : path) {
      if (step.is_string() ? !at->is_object() || !at->contains(step.get_ref<const std::string&>())
                           : !at->is_array() || step.get<std::size_t>() >= at->size())
        return {};
      at = step.is_string() ? &(*at)[step.get_ref<const std::string&>()]
                            : &(*at)[step.get<std::size_t>()];
    }
    return *at;
  }

  static Value plain(std::string_view text) {
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text = text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
    if (Json number = number_of(text); !number.is_null())
      return {.json = std::move(number), .written = std::string(text)};
    if (!is_utf8(text)) throw Error(ErrorCode::kCorrupt, "text that is not UTF-8");
    return {.json = text};
  }

  const Sample& sample_;
  std::map<std::string, Json> fields_;
};

/// Wide enough for every whole number of 64 bits and every double, so that no comparison rounds.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

std::optional<Exact> as_number(const Json& json) {
  if (json.is_boolean()) return json.get<bool>() ? 1 : 0;
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number()) return json.get<double>();
  return {};
}

/// Two values as they are compared: beside a text, a field that is a number is a text as well.
struct Pair {
  Json left;
  Json right;
};

Pair beside_each_other(const Value& left, const Value& right) {
  const bool texts = left.json.is_string() || right.json.is_string();
  const auto seen = [&](const Value& one) {
    return texts && !one.written.empty() ? Json(one.written) : one.json;
  };
  return {seen(left), seen(right)};
}

bool equal(const Value& left, const Value& right) {
  const Pair pair = beside_each_other(left, right);
  const auto a = as_number(pair.left);
  const auto b = as_number(pair.right);
  return a && b ? *a == *b : pair.left == pair.right;
}

/// -1, 0, 1; nullopt for what has no order.
std::optional<int> order_of(const Value& left, const Value& right) {
  const auto sign = [](const auto& a, const auto& b) { return a < b ? -1 : a > b ? 1 : 0; };
  const Pair pair = beside_each_other(left, right);
  if (pair.left.is_string() && pair.right.is_string())
    return sign(pair.left.get_ref<const std::string&>(), pair.right.get_ref<const std::string&>());
  const auto a = as_number(pair.left);
  const auto b = as_number(pair.right);
  return a && b ? std::optional<int>(sign(*a, *b)) : std::nullopt;
}

bool is_in(const Value& value, const Json& list) {
  return list.is_array() && std::any_of(list.begin(), list.end(), [&](const Json& one) {
           return equal(value, {.json = one});
         });
}

bool contains(const Value& whole, const Value& part) {
  const auto [text, wanted] = beside_each_other(whole, part);
  if (text.is_string() && wanted.is_string())
    return text.get_ref<const std::string&>().find(wanted.get_ref<const std::string&>()) !=
           std::string::npos;
  return is_in(part, whole.json);
}

/// A text for fnmatch(), which ends at a NUL: that is the replacement character, one like others.
std::string without_nul(std::string text) {
  for (std::size_t at = 0; (at = text.find('\0', at)) != text.npos;)
    text.replace(at, 1, "\xEF\xBF\xBD");
  return text;
}

/// Characters are those of UTF-8, whatever locale the process has.
bool matches(const Value& whole, const Value& wanted) {
  static const detail::Utf8Locale utf8;
  const auto [text, pattern] = beside_each_other(whole, wanted);
  if (!text.is_string() || !pattern.is_string()) return false;
  const detail::Utf8Locale::Scope here(utf8);
  return ::fnmatch(without_nul(pattern.get<std::string>()).c_str(),
                   without_nul(text.get<std::string>()).c_str(), 0) == 0;
}

/// As Python has it: 0, false, null and what is empty are not true.
bool truth(const Json& json) {
  const auto number = as_number(json);
  if (number) return *number != 0;
  return json.is_string() ? !json.get_ref<const std::string&>().empty() : !json.empty();
}

Value evaluate(const Node& node, Values& values);

bool holds(const Node& node, Values& values) { return truth(evaluate(node, values).json); }

bool compare(const Node& node, Values& values) {
  const Value left = evaluate(node.parts[0], values);
  const Value right = evaluate(node.parts[1], values);
  switch (node.op) {
    case Op::kEqual:
      return equal(left, right);
    case Op::kUnequal:
      return !equal(left, right);
    case Op::kIn:
      return is_in(left, right.json);
    case Op::kContains:
      return contains(left, right);
    case Op::kMatches:
      return matches(left, right);
    default:
      break;
  }
  const auto order = order_of(left, right);
  if (!order) return false;
  if (node.op == Op::kLess) return *order < 0;
  if (node.op == Op::kMore) return *order > 0;
  return node.op == Op::kAtMost ? *order <= 0 : *order >= 0;
}

Value evaluate(const Node& node, Values& values) {
  switch (node.op) {
    case Op::kValue:
      return values.of(node);
    case Op::kLiteral:
      return {.json = node.literal};
    case Op::kAnd:
      return {.json = holds(node.parts[0], values) && holds(node.parts[1], values)};
    case Op::kOr:
      return {.json = holds(node.parts[0], values) || holds(node.parts[1], values)};
    case Op::kNot:
      return {.json = !holds(node.parts[0], values)};
    default:
      return {.json = compare(node, values)};
  }
}

/// The same number, 7 and 7.0, is one group: as a double, unless that rounds.
Json grouped(const Value& value) {
  if (!value.json.is_number()) return value.json;
  const double rounded = value.json.get<double>();
  return as_number(value.json) == Exact{rounded} ? Json(rounded) : value.json;
}

void watch_values(Node& node) {
  if (node.op == Op::kValue && !node.suffix.empty())
    node.seen = std::make_shared<Node::Sightings>();
  for (Node& part : node.parts) watch_values(part);
}

/// "json.size.width", "json.boxes[0]".
std::string name_of(const Node& node) {
  std::string name = node.suffix;
  for (const Json& step : node.path)
    name += step.is_string() ? "." + step.get<std::string>()
                             : "[" + std::to_string(step.get<std::size_t>()) + "]";
  return name;
}

void add_unseen(const Node& node, std::vector<std::string>& names) {
  if (node.seen && node.seen->asked && !node.seen->found) names.push_back(name_of(node));
  for (const Node& part : node.parts) add_unseen(part, names);
}

std::unique_ptr<const Node> watched(Node node) {
  watch_values(node);
  return std::make_unique<const Node>(std::move(node));
}

}  // namespace

SampleFilter::SampleFilter(std::string_view expression)
    : root_(watched(FilterParser(expression).whole())) {
  add_suffixes(*root_, suffixes_);
}
SampleFilter::~SampleFilter() = default;
SampleFilter::SampleFilter(SampleFilter&&) noexcept = default;
SampleFilter& SampleFilter::operator=(SampleFilter&&) noexcept = default;

const std::vector<std::string>& SampleFilter::suffixes() const { return suffixes_; }

std::vector<std::string> SampleFilter::unseen() const {
  std::vector<std::string> names;
  add_unseen(*root_, names);
  return names;
}

bool SampleFilter::operator()(const Sample& sample) const {
  Values values(sample);
  return holds(*root_, values);
}

SampleValue::SampleValue(std::string_view name)
    : node_(std::make_unique<const Node>(FilterParser(name).value_alone())) {}
SampleValue::~SampleValue() = default;
SampleValue::SampleValue(SampleValue&&) noexcept = default;
SampleValue& SampleValue::operator=(SampleValue&&) noexcept = default;

const std::string& SampleValue::suffix() const { return node_->suffix; }

std::string SampleValue::text(const Sample& sample) const {
  const Value value = Values(sample).of(*node_);
  return grouped(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

double SampleValue::number(const Sample& sample) const {
  const Json value = Values(sample).of(*node_).json;
  const auto number = as_number(value);
  if (!number)
    throw Error(ErrorCode::kCorrupt,
                value.is_null() ? "the sample has no weight" : "a weight that is no number",
                {.key = sample.key});
  return static_cast<double>(*number);
}

}  // namespace millrace::wds
