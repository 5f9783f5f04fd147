#include "trainer/hlo/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "io/base/check.h"

namespace millrace::trainer::hlo {
namespace {

bool is_name_letter(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '.' || letter == '_' || letter == '-' ||
         letter == '$';
}

/// "%stem". A layer may be called anything; MLIR's names may not begin with a digit, either.
std::string name_of(std::string_view stem) {
  std::string name = stem.empty() || (stem[0] >= '0' && stem[0] <= '9') ? "%_" : "%";
  for (const char letter : stem) name += is_name_letter(letter) ? letter : '_';
  return name;
}

std::string location(std::string_view name) {
  std::string text = "loc(\"";
  for (const char letter : name) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\' || code < 0x20 || code > 0x7e)
      text += fmt::format("\\{:02X}", code);
    else
      text += letter;
  }
  return text + "\")";
}

}  // namespace

std::string_view type_name(Type type) {
  static constexpr std::array<std::string_view, 8> kNames = {"i1",   "i32",  "i64", "ui8",
                                                             "ui32", "ui64", "f32", "bf16"};
  return kNames[static_cast<std::size_t>(type)];
}

bool is_float(Type type) { return type == Type::kFloat32 || type == Type::kBFloat16; }

std::string tensor_type(Type type, const Shape& shape) {
  std::string text = "tensor<";
  for (const std::int64_t size : shape) text += fmt::format("{}x", size);
  return text + std::string(type_name(type)) + ">";
}

std::string Tensor::type_text() const { return tensor_type(type, shape); }

std::string Builder::unique_name(std::string_view stem) {
  std::string name = name_of(stem);
  while (!names_.insert(name).second) name += "_";
  return name;
}

Tensor Builder::argument(std::string_view name, Type type, Shape shape) {
  arguments_.push_back({this, unique_name(name), type, std::move(shape)});
  argument_locations_.push_back(location(name));
  return arguments_.back();
}

Tensor Builder::define(Type type, Shape shape, std::string_view operation) {
  Tensor value{this, unique_name(fmt::format("{}_{}", scope_, ++count_)), type, std::move(shape)};
  body_ += fmt::format("    {} = {} {}\n", value.name, operation, location(scope_));
  return value;
}

std::string Builder::finish(const std::vector<Result>& results) {
  std::vector<std::string> attributes(arguments_.size());
  std::string result_types;
  std::string values;
  std::string value_types;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Tensor& value = results[i].value;
    if (const auto donated = results[i].donated) {
      const Tensor& argument = arguments_.at(*donated);
      MILLRACE_CHECK(argument.type == value.type && argument.shape == value.shape,
                     "an argument is donated to a result of another shape");
      attributes[*donated] = fmt::format(" {{tf.aliasing_output = {} : i32}}", i);
    }
    const std::string_view comma = i == 0 ? "" : ", ";
    result_types += fmt::format("{}{}", comma, value.type_text());
    values += fmt::format("{}{}", comma, value.name);
  }
  value_types = result_types;
  std::string text = fmt::format(
      "module @{} attributes {{mhlo.num_partitions = 1 : i32, mhlo.num_replicas = {} : i32}} {{\n"
      "  func.func public @main(",
      options_.module, options_.replicas);
  for (std::size_t i = 0; i < arguments_.size(); ++i)
    text += fmt::format("{}\n      {}: {}{} {}", i == 0 ? "" : ",", arguments_[i].name,
                        arguments_[i].type_text(), attributes[i], argument_locations_[i]);
  text += fmt::format(") -> ({}) {{\n", result_types);
  text += body_;
  text += fmt::format("    return {} : {} {}\n  }} {}\n}}\n", values, value_types,
                      location("results"), location(options_.module));
  body_.clear();
  return text;
}

Scope::Scope(Builder& builder, std::string name)
    : builder_(builder), before_(std::exchange(builder.scope_, std::move(name))) {}

Scope::~Scope() { builder_.scope_ = std::move(before_); }

}  // namespace millrace::trainer::hlo
