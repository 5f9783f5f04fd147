#include "io/component/component.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/base/suggest.h"
#include "io/component/component_text.h"

namespace millrace {
namespace {

using Kind = Written::Kind;

std::vector<std::string> names_of(const std::vector<Field>& fields) {
  std::vector<std::string> names;
  for (const Field& field : fields) names.emplace_back(field.name);
  return names;
}

const Field* find(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &*found;
}

bool is_bool(const Field& field) { return field.type == &value_type(bool()); }

/// What a number must be: a range without bounds has no text, and holds finite ones.
std::string numbers_text(const Range& range) {
  const std::string text = range.text();
  return text.empty() ? "a finite number" : text;
}

/// Gives a call's arguments to the fields.
class Call {
 public:
  Call(const StructType& type, const std::vector<Field>& fields, const Written& call)
      : word_(type.name().word), fields_(fields), call_(call) {}

  void read() {
    for (const Written& argument : call_.items) read(argument);
    for (const Field& field : fields_)
      if (!is_given(field) && !field.in_range())
        throw Mistake(call_, fmt::format("{} needs {}", word_, field.name));
  }

 private:
  bool is_given(const Field& field) const {
    return std::ranges::find(given_, &field) != given_.end();
  }

  void read(const Written& value) {
    if (!value.name.empty()) return set(named(value), value);
    const Field* flag = value.kind == Kind::kWord ? find(fields_, value.text) : nullptr;
    if (flag != nullptr && is_bool(*flag)) {
      return set(*flag,
                 {.kind = Kind::kBool, .text = "true", .begin = value.begin, .end = value.end});
    }
    set(next(value), value);
  }

  const Field& named(const Written& value) const {
    if (const Field* field = find(fields_, value.name)) return *field;
    throw Mistake(value, fmt::format("{} has no '{}'{}", word_, value.name,
                                     or_names(value.name, names_of(fields_))));
  }

  const Field& next(const Written& value) {
    if (at_ < fields_.size() && fields_[at_].by_place) return fields_[at_++];
    throw Mistake(value, at_ == 0 ? fmt::format("{} takes its parameters by name", word_)
                                  : fmt::format("{} takes at most {} without a name", word_, at_));
  }

  void set(const Field& field, const Written& value) {
    if (is_given(field)) throw Mistake(value, fmt::format("{} is given twice", field.name));
    given_.push_back(&field);
    try {
      field.type->read(value, field.value);
    } catch (const Mistake& inner) {
      // A struct inside has named its own field.
      if (inner.begin != value.begin) throw;
      throw Mistake(value, fmt::format("{}: {}", field.name, inner.message()));
    }
    if (!field.in_range())
      throw Mistake(value, fmt::format("{} must be {}", field.name, numbers_text(field.range)));
  }

  std::string_view word_;
  const std::vector<Field>& fields_;
  const Written& call_;
  std::size_t at_ = 0;  ///< of the next field by place
  std::vector<const Field*> given_;
};

}  // namespace

bool Range::holds(double number) const {
  return (open_min ? number > min : number >= min) && (open_max ? number < max : number <= max);
}

std::string Range::text() const {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  std::string bounds;
  if (min != -kNone && max != kNone && !open_min && !open_max)
    bounds = fmt::format("{} to {}", min, max);
  else if (min != -kNone)
    bounds = fmt::format("{} {}", open_min ? "above" : "at least", min);
  if (max != kNone && (open_min || open_max || min == -kNone))
    bounds +=
        fmt::format("{}{} {}", bounds.empty() ? "" : " and ", open_max ? "below" : "at most", max);
  return unit.empty() || bounds.empty() ? bounds + std::string(unit)
                                        : fmt::format("{} {}", bounds, unit);
}

bool Field::in_range() const {
  const std::vector<double> all = type->numbers(value);
  return std::ranges::all_of(
      all, [this](double number) { return std::isfinite(number) && range.holds(number); });
}

void FieldList::add(std::string_view name, const ValueType& type, void* value, const Range& range,
                    std::string_view sentence) {
  fields_.push_back({name, &type, value, range, sentence, by_place_});
}

std::vector<Field> StructType::fields(void* value) const {
  FieldList listed;
  list(value, listed);
  return listed.all();
}

std::vector<Field> StructType::fields(const void* value) const {
  return fields(const_cast<void*>(value));
}

void StructType::check(const void* value) const {
  for (const Field& field : fields(value))
    if (!field.in_range())
      throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {} must be {}", name().word,
                                                           field.name, numbers_text(field.range)));
  check_own(value);
}

void StructType::read(const Written& from, void* value) const {
  if (is_calls(from)) return read(written_calls(from).items.front(), value);
  const bool is_call = from.kind == Kind::kCall || from.kind == Kind::kWord;
  const std::string word = plain_name(from.text);
  const bool is_own = word == plain_name(name().word) || word == plain_name(name().python);
  if (!is_call || (!from.text.empty() && !is_own))
    throw Mistake(from, fmt::format("must be {}", shown()));
  // As in C++ and Python: what is not given has the struct's own default, wherever it stands.
  reset(value);
  Call(*this, fields(value), from).read();
  try {
    check_own(value);
  } catch (const Mistake&) {
    throw;
  } catch (const Error& error) {
    throw Mistake(from, fmt::format("{}: {}", name().word, error.message()));
  }
}

Written StructType::write(const void* value, Form form) const {
  Written call{.kind = Kind::kCall, .text = std::string(name().word)};
  const std::vector<Field> own = fields(value);
  const std::vector<Field> plain = fields(usual());
  bool by_place = form == Form::kShortest;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const bool same = own[i].type->write(own[i].value, Form::kWhole) ==
                      own[i].type->write(plain[i].value, Form::kWhole);
    by_place = by_place && !same && own[i].by_place && !is_bool(own[i]);
    if (same && form == Form::kShortest) continue;
    call.items.push_back(own[i].type->write(own[i].value, form));
    if (!by_place) call.items.back().name = own[i].name;
  }
  return call;
}

}  // namespace millrace
