// Component: what a user picks by name and gives parameters, described once.
//
// A component is a plain struct with defaults, its names, and one list of its fields:
//
//   struct Cosine {                                             // cosine.h
//     RunLength warmup = {};
//     double final_rate = 0;
//
//     static const ComponentName kName;
//     void fields(FieldList& field);
//     std::unique_ptr<Curve> make() const;
//   };
//
//   const ComponentName Cosine::kName = {"cosine", "Cosine", "Falls along half a cosine"};
//   void Cosine::fields(FieldList& field) {                     // cosine.cc
//     field("warmup", warmup, {.min = 0}, "Linear rise at the start");
//     field("to", final_rate, {.min = 0}, "Rate at the end");
//   }
//
// From that list follow the word and its parser, TOML and JSON, help, the Python class, equality,
// and what a checkpoint records (component_text.h, component_json.h). A field whose default lies
// outside its own range must be given. An optional `void check() const` refuses fields that
// contradict each other (throws InvalidArgument).
//
// Threads: const, from any.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "io/component/value_type.h"

namespace millrace {

struct ComponentName {
  std::string_view word;      ///< on the command line, in TOML and JSON
  std::string_view python;    ///< the class; in C++ too
  std::string_view sentence;  ///< without a full stop
};

/// The numbers that a field takes, and their unit.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool open_min = false;  ///< above min
  bool open_max = false;  ///< below max
  std::string_view unit = {};

  bool holds(double number) const;
  /// "0 to 1", "above 0", "1 to 65535 px"; "" for all numbers.
  std::string text() const;
};

/// One field of one object. Lifetime: the object's.
struct Field {
  std::string_view name;
  const ValueType* type = nullptr;
  void* value = nullptr;
  Range range = {};
  std::string_view sentence;
  bool by_place = true;  ///< may be given without its name

  bool in_range() const;
};

/// Takes the fields that a component lists. Not a template of the component: what is done with
/// fields is compiled once.
class FieldList {
 public:
  template <typename V>
  void operator()(std::string_view name, V& value, const Range& range, std::string_view sentence) {
    add(name, value_type(value), &value, range, sentence);
  }
  template <typename V>
  void operator()(std::string_view name, V& value, std::string_view sentence) {
    (*this)(name, value, {}, sentence);
  }
  /// What follows is given by name only, as after the * in Python.
  void by_name() { by_place_ = false; }

  const std::vector<Field>& all() const { return fields_; }

 private:
  void add(std::string_view name, const ValueType& type, void* value, const Range& range,
           std::string_view sentence);

  std::vector<Field> fields_;
  bool by_place_ = true;
};

/// The description of a struct, as a type of values too: components nest.
class StructType : public ValueType {
 public:
  virtual const ComponentName& name() const = 0;
  virtual void list(void* value, FieldList& fields) const = 0;
  /// One with its defaults.
  virtual const void* usual() const = 0;
  /// Throws: InvalidArgument for a field out of its range, or fields that contradict each other.
  void check(const void* value) const;
  std::vector<Field> fields(void* value) const;
  /// Requires: the caller only reads the values.
  std::vector<Field> fields(const void* value) const;

  void read(const Written& from, void* value) const final;
  Written write(const void* value, Form form) const final;
  std::string python() const final { return std::string(name().python); }
  std::string shown() const final { return std::string(name().word) + "(...)"; }

 protected:
  virtual void reset(void* value) const = 0;
  virtual void check_own(const void* value) const = 0;
};

template <Described T>
class StructTypeOf final : public StructType {
 public:
  const ComponentName& name() const override { return T::kName; }
  void list(void* value, FieldList& fields) const override {
    static_cast<T*>(value)->fields(fields);
  }
  const void* usual() const override { return &usual_; }

 private:
  void reset(void* value) const override { *static_cast<T*>(value) = usual_; }
  void check_own(const void* value) const override {
    if constexpr (requires(const T& it) { it.check(); }) static_cast<const T*>(value)->check();
  }
  T usual_ = {};
};

template <Described T>
const StructType& value_type(const T&) {
  static const StructTypeOf<T> type;
  return type;
}

}  // namespace millrace
