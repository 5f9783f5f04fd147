// ValueType: how a field's value is read, written and named, without knowing the component.
//
// A type is described once, for every component that has a member of it. Numbers, bool, strings,
// intervals, lengths of a run, lists, optionals and nested structs are here; an enum adds one
// function beside its definition, found by the value's namespace:
//
//   const ValueType& value_type(const Interpolation&) {
//     static const EnumType<Interpolation> type({{"nearest", Interpolation::kNearest}, ...});
//     return type;
//   }
//
// Threads: const, from any.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error.h"

namespace millrace {

/// What a user wrote: the same tree from call syntax, TOML, JSON and Python.
struct Written {
  enum class Kind { kNone, kBool, kNumber, kWord, kInterval, kList, kCall };
  Kind kind = Kind::kNone;
  std::string text = {};            ///< a number or a word; a call's word, "" for a bare table
  std::vector<Written> items = {};  ///< of an interval, a list or a call
  std::string name = {};            ///< as an argument of a call; "": given by its place
  std::size_t begin = 0;            ///< columns in the source, from 0; end is one past the last
  std::size_t end = 0;
};

/// But for where they stand.
bool operator==(const Written& a, const Written& b);

/// InvalidArgument: what is wrong with what a user wrote, and in which columns.
class Mistake : public Error {
 public:
  Mistake(const Written& at, std::string message)
      : Error(ErrorCode::kInvalidArgument, std::move(message)), begin(at.begin), end(at.end) {}
  std::size_t begin;
  std::size_t end;
};

class ValueType {
 public:
  virtual ~ValueType() = default;
  /// Throws: Mistake.
  virtual void read(const Written& from, void* value) const = 0;
  /// What read() takes back to the same value; kShortest leaves out what structs have by default.
  enum class Form { kShortest, kWhole };
  virtual Written write(const void* value, Form form) const = 0;
  /// "float", "tuple[float, float]".
  virtual std::string python() const = 0;
  /// In help: "N", "X", "nearest|bilinear".
  virtual std::string shown() const = 0;
  /// The numbers that a field's range bounds.
  virtual std::vector<double> numbers(const void* /*value*/) const { return {}; }
};

/// From and to, both included.
struct Interval {
  double from = 0;
  double to = 0;
  bool operator==(const Interval&) const = default;
};

/// A part of a run: "5ep", "100steps".
struct RunLength {
  enum class Unit { kEpochs, kSteps };
  double count = 0;
  Unit unit = Unit::kEpochs;
  bool operator==(const RunLength&) const = default;
};

const ValueType& value_type(const bool&);
const ValueType& value_type(const int&);
const ValueType& value_type(const std::int64_t&);
const ValueType& value_type(const float&);
const ValueType& value_type(const double&);
const ValueType& value_type(const std::string&);
const ValueType& value_type(const Interval&);
const ValueType& value_type(const RunLength&);

/// All but the words themselves, so that an enum costs one small class.
class WordsType : public ValueType {
 public:
  void read(const Written& from, void* value) const final;
  Written write(const void* value, Form form) const final;
  std::string python() const final;
  std::string shown() const final;

 protected:
  virtual std::vector<std::string> words() const = 0;
  virtual std::size_t index(const void* value) const = 0;
  virtual void set(void* value, std::size_t index) const = 0;
};

template <typename E>
class EnumType final : public WordsType {
 public:
  explicit EnumType(std::vector<std::pair<std::string_view, E>> words) : words_(std::move(words)) {}

 protected:
  std::vector<std::string> words() const override {
    std::vector<std::string> all;
    for (const auto& [word, value] : words_) all.emplace_back(word);
    return all;
  }
  std::size_t index(const void* value) const override {
    std::size_t i = 0;
    while (i < words_.size() && words_[i].second != *static_cast<const E*>(value)) ++i;
    return i;
  }
  void set(void* value, std::size_t i) const override {
    *static_cast<E*>(value) = words_[i].second;
  }

 private:
  std::vector<std::pair<std::string_view, E>> words_;
};

/// A sequence of values of one type; and, with at most one of them, an optional value.
class SequenceType : public ValueType {
 public:
  void read(const Written& from, void* value) const final;
  Written write(const void* value, Form form) const final;
  std::string python() const final;
  std::string shown() const final;
  std::vector<double> numbers(const void* value) const final;

 protected:
  virtual bool at_most_one() const = 0;
  virtual const ValueType& item() const = 0;
  virtual std::size_t size(const void* value) const = 0;
  virtual const void* at(const void* value, std::size_t index) const = 0;
  virtual void* append(void* value) const = 0;
  virtual void clear(void* value) const = 0;
};

class FieldList;
class StructType;

template <typename T>
concept Described = std::default_initializable<T> && std::copyable<T> &&
    requires(T it, FieldList& list) {
  T::kName.word, it.fields(list);
};

template <Described T>
const StructType& value_type(const T&);
template <typename V>
const ValueType& value_type(const std::vector<V>&);
template <typename V>
const ValueType& value_type(const std::optional<V>&);

template <typename V>
class VectorType final : public SequenceType {
  using Values = std::vector<V>;
  bool at_most_one() const override { return false; }
  const ValueType& item() const override { return value_type(V()); }
  std::size_t size(const void* value) const override {
    return static_cast<const Values*>(value)->size();
  }
  const void* at(const void* value, std::size_t index) const override {
    return &(*static_cast<const Values*>(value))[index];
  }
  void* append(void* value) const override { return &static_cast<Values*>(value)->emplace_back(); }
  void clear(void* value) const override { static_cast<Values*>(value)->clear(); }
};

template <typename V>
class OptionalType final : public SequenceType {
  using Value = std::optional<V>;
  bool at_most_one() const override { return true; }
  const ValueType& item() const override { return value_type(V()); }
  std::size_t size(const void* value) const override {
    return static_cast<const Value*>(value)->has_value() ? 1 : 0;
  }
  const void* at(const void* value, std::size_t /*index*/) const override {
    return &**static_cast<const Value*>(value);
  }
  void* append(void* value) const override { return &static_cast<Value*>(value)->emplace(); }
  void clear(void* value) const override { static_cast<Value*>(value)->reset(); }
};

template <typename V>
const ValueType& value_type(const std::vector<V>&) {
  static const VectorType<V> type;
  return type;
}

template <typename V>
const ValueType& value_type(const std::optional<V>&) {
  static const OptionalType<V> type;
  return type;
}

}  // namespace millrace
