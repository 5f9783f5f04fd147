#include "io/component/value_type.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "io/component/component_text.h"

namespace millrace {
namespace {

using Kind = Written::Kind;

Written number(const std::string& text) { return {.kind = Kind::kNumber, .text = text}; }

template <typename T>
bool take(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end;
}

double read_number(const Written& from) {
  double value = 0;
  if (from.kind == Kind::kNumber && take(from.text, value) && std::isfinite(value)) return value;
  if (from.kind == Kind::kList) throw Mistake(from, "must be one number, not a list");
  throw Mistake(from, fmt::format("'{}' is not a number", from.text));
}

std::int64_t read_whole(const Written& from) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  std::int64_t whole = 0;
  if (from.kind == Kind::kNumber && take(from.text, whole)) return whole;
  const double value = read_number(from);
  if (value != std::floor(value) || std::abs(value) > kExact)
    throw Mistake(from, fmt::format("'{}' is not a whole number", from.text));
  return static_cast<std::int64_t>(value);
}

void set(const Written& from, double& value) { value = read_number(from); }
void set(const Written& from, float& value) { value = static_cast<float>(read_number(from)); }
void set(const Written& from, std::int64_t& value) { value = read_whole(from); }
void set(const Written& from, int& value) {
  const std::int64_t whole = read_whole(from);
  value = static_cast<int>(whole);
  if (value != whole) throw Mistake(from, fmt::format("{} is too large", whole));
}

template <typename T>
class NumberType final : public ValueType {
 public:
  NumberType(const char* python, const char* shown) : python_(python), shown_(shown) {}
  void read(const Written& from, void* value) const override { set(from, *static_cast<T*>(value)); }
  // fmt writes the fewest digits that read back to the same bits.
  Written write(const void* value, Form /*form*/) const override {
    return number(fmt::format("{}", *static_cast<const T*>(value)));
  }
  std::string python() const override { return python_; }
  std::string shown() const override { return shown_; }
  std::vector<double> numbers(const void* value) const override {
    return {static_cast<double>(*static_cast<const T*>(value))};
  }

 private:
  const char* python_;
  const char* shown_;
};

class BoolType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    if (from.kind != Kind::kBool) throw Mistake(from, "must be true or false");
    *static_cast<bool*>(value) = from.text == "true";
  }
  Written write(const void* value, Form /*form*/) const override {
    return {.kind = Kind::kBool, .text = *static_cast<const bool*>(value) ? "true" : "false"};
  }
  std::string python() const override { return "bool"; }
  std::string shown() const override { return ""; }
};

class StringType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    if (from.kind == Kind::kList || from.kind == Kind::kCall) throw Mistake(from, "must be a text");
    *static_cast<std::string*>(value) = from.text;
  }
  Written write(const void* value, Form /*form*/) const override {
    return {.kind = Kind::kWord, .text = *static_cast<const std::string*>(value)};
  }
  std::string python() const override { return "str"; }
  std::string shown() const override { return "TEXT"; }
};

// 0.02..0.33; two numbers in brackets as well, as TOML, JSON and Python have them.
class IntervalType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    auto& interval = *static_cast<Interval*>(value);
    const std::size_t dots = from.text.find("..");
    const bool is_pair = from.kind == Kind::kList || from.kind == Kind::kInterval;
    if (is_pair && from.items.size() == 2) {
      interval = {read_number(from.items[0]), read_number(from.items[1])};
    } else if (from.kind != Kind::kWord || dots == std::string::npos ||
               !take(std::string_view(from.text).substr(0, dots), interval.from) ||
               !take(std::string_view(from.text).substr(dots + 2), interval.to)) {
      throw Mistake(from, "must be an interval, such as 0.1..0.5");
    }
    if (!(interval.from <= interval.to)) throw Mistake(from, "must not end before it begins");
  }
  Written write(const void* value, Form /*form*/) const override {
    const auto& [from, to] = *static_cast<const Interval*>(value);
    return {.kind = Kind::kInterval,
            .items = {number(fmt::format("{}", from)), number(fmt::format("{}", to))}};
  }
  std::string python() const override { return "tuple[float, float]"; }
  std::string shown() const override { return "X..X"; }
  std::vector<double> numbers(const void* value) const override {
    const auto& [from, to] = *static_cast<const Interval*>(value);
    return {from, to};
  }
};

class RunLengthType final : public ValueType {
 public:
  void read(const Written& from, void* value) const override {
    auto& length = *static_cast<RunLength*>(value);
    const std::string_view text = from.text;
    const bool epochs = text.ends_with("ep");
    const bool steps = text.ends_with("steps");
    const std::string_view count = text.substr(0, text.size() - (epochs ? 2 : steps ? 5 : 0));
    if (from.kind == Kind::kNumber && text == "0") {
      length = {};
      return;
    }
    if (!(epochs || steps) || !take(count, length.count))
      throw Mistake(from, "must have a unit: 5ep or 100steps");
    if (steps && length.count != std::floor(length.count))
      throw Mistake(from, "must be a whole number of steps");
    length.unit = epochs ? RunLength::Unit::kEpochs : RunLength::Unit::kSteps;
  }
  Written write(const void* value, Form /*form*/) const override {
    const auto& [count, unit] = *static_cast<const RunLength*>(value);
    if (count == 0) return number("0");
    return {.kind = Kind::kWord,
            .text = fmt::format("{}{}", count, unit == RunLength::Unit::kEpochs ? "ep" : "steps")};
  }
  std::string python() const override { return "str"; }
  std::string shown() const override { return "Xep|Nsteps"; }
  std::vector<double> numbers(const void* value) const override {
    return {static_cast<const RunLength*>(value)->count};
  }
};

}  // namespace

bool operator==(const Written& a, const Written& b) {
  return a.kind == b.kind && a.name == b.name && a.text == b.text && a.items == b.items;
}

const ValueType& value_type(const bool&) {
  static const BoolType type;
  return type;
}
const ValueType& value_type(const int&) {
  static const NumberType<int> type("int", "N");
  return type;
}
const ValueType& value_type(const std::int64_t&) {
  static const NumberType<std::int64_t> type("int", "N");
  return type;
}
const ValueType& value_type(const float&) {
  static const NumberType<float> type("float", "X");
  return type;
}
const ValueType& value_type(const double&) {
  static const NumberType<double> type("float", "X");
  return type;
}
const ValueType& value_type(const std::string&) {
  static const StringType type;
  return type;
}
const ValueType& value_type(const Interval&) {
  static const IntervalType type;
  return type;
}
const ValueType& value_type(const RunLength&) {
  static const RunLengthType type;
  return type;
}

void WordsType::read(const Written& from, void* value) const {
  const std::vector<std::string> all = words();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i] == from.text) return set(value, i);
  throw Mistake(from, fmt::format("there is no '{}'{}", from.text, or_names(from.text, all)));
}

Written WordsType::write(const void* value, Form /*form*/) const {
  return {.kind = Kind::kWord, .text = words().at(index(value))};
}

std::string WordsType::python() const {
  std::string text;
  for (const std::string& word : words()) text += (text.empty() ? "'" : ", '") + word + "'";
  return "Literal[" + text + "]";
}

std::string WordsType::shown() const {
  std::string text;
  for (const std::string& word : words()) text += (text.empty() ? "" : "|") + word;
  return text;
}

void SequenceType::read(const Written& from, void* value) const {
  clear(value);
  if (at_most_one()) {
    if (from.kind != Kind::kNone) item().read(from, append(value));
    return;
  }
  if (from.kind == Kind::kNumber) return item().read(from, append(value));  // [1] as 1
  if (from.kind != Kind::kList) throw Mistake(from, "must be a list in [ ]");
  for (const Written& one : from.items) item().read(one, append(value));
}

Written SequenceType::write(const void* value, Form form) const {
  if (at_most_one() && size(value) == 0) return {.kind = Kind::kNone, .text = "none"};
  if (at_most_one()) return item().write(at(value, 0), form);
  Written list{.kind = Kind::kList};
  for (std::size_t i = 0; i < size(value); ++i)
    list.items.push_back(item().write(at(value, i), form));
  return list;
}

std::string SequenceType::python() const {
  const std::string one = item().python();
  if (at_most_one()) return one + " | None";
  const bool may_be_lone = one == "float" || one == "int";
  return fmt::format("{}Sequence[{}]", may_be_lone ? one + " | " : "", one);
}

std::string SequenceType::shown() const {
  return at_most_one() ? item().shown() : fmt::format("[{}, ...]", item().shown());
}

std::vector<double> SequenceType::numbers(const void* value) const {
  std::vector<double> all;
  for (std::size_t i = 0; i < size(value); ++i)
    for (const double one : item().numbers(at(value, i))) all.push_back(one);
  return all;
}

}  // namespace millrace
