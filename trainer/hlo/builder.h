// Builder: writes a StableHLO module, operation by operation, as text; Tensor: a value in it.
//
//   hlo::Builder builder({.module = "step", .replicas = 2});
//   const hlo::Tensor x = builder.argument("x", hlo::Type::kFloat32, {8, 10});
//   {
//     const hlo::Scope scope(builder, "fc");                  // names %fc_1, locations loc("fc")
//     y = hlo::max(2.0 * x, 0.0);                             // operations.h
//   }
//   const std::string text = builder.finish({{y, std::nullopt}});
//
// An operation is a line: its value is named after the scope, as a layer is called, and its
// location is the scope, which profilers show. There is no library below: what a line says is what
// a plugin reads.
//
// Threads: a builder and its tensors by one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trainer::hlo {

enum class Type { kPred, kInt32, kInt64, kUint8, kUint32, kUint64, kFloat32, kBFloat16 };

/// "f32", "bf16", "i64", "ui8", "i1": as StableHLO spells it.
std::string_view type_name(Type type);
bool is_float(Type type);

using Shape = std::vector<std::int64_t>;

class Builder;

/// A value of a module: cheap to copy. Lifetime: the builder's.
struct Tensor {
  Builder* builder = nullptr;
  std::string name = {};  ///< "%conv1_12"
  Type type = Type::kFloat32;
  Shape shape = {};

  std::int64_t rank() const { return static_cast<std::int64_t>(shape.size()); }
  /// "tensor<8x10xf32>".
  std::string type_text() const;
};

/// "tensor<8x10xf32>".
std::string tensor_type(Type type, const Shape& shape);

/// One of a module's results. A donated argument is replaced by its result in place.
struct Result {
  Tensor value;
  std::optional<std::size_t> donated = {};  ///< the index of the argument
};

struct BuilderOptions {
  std::string module = "program";
  int replicas = 1;
};

class Builder {
 public:
  explicit Builder(BuilderOptions options) : options_(std::move(options)) {}
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  int replicas() const { return options_.replicas; }

  /// Arguments keep their order. `name` names the value and its location.
  Tensor argument(std::string_view name, Type type, Shape shape);
  /// A line whose right side is `operation`: "stablehlo.add %a, %b : tensor<4xf32>".
  Tensor define(Type type, Shape shape, std::string_view operation);
  /// The whole module. Requires: called once; a donated argument has its result's type and shape.
  std::string finish(const std::vector<Result>& results);

 private:
  friend class Scope;

  std::string unique_name(std::string_view stem);

  BuilderOptions options_;
  std::vector<Tensor> arguments_;
  std::vector<std::string> argument_locations_;
  std::string scope_ = "step";
  std::set<std::string, std::less<>> names_;
  std::size_t count_ = 0;
  std::string body_;
};

/// While it lives, operations are named after `name` and have it as their location.
class Scope {
 public:
  Scope(Builder& builder, std::string name);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Builder& builder_;
  std::string before_;
};

}  // namespace millrace::trainer::hlo
