#include "trainer/hlo/operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/base/check.h"

namespace millrace::trainer::hlo {
namespace {

/// A float's text: MLIR wants a point in it, and bits for what is not finite.
std::string float_text(double value, Type type) {
  const auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow)) {
    const auto bits = std::bit_cast<std::uint32_t>(narrow);
    return type == Type::kBFloat16 ? fmt::format("0x{:04X}", bits >> 16)
                                   : fmt::format("0x{:08X}", bits);
  }
  std::string text = fmt::format("{}", narrow);
  const std::size_t exponent = text.find('e');
  if (text.find('.') == std::string::npos)
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  return text;
}

std::string value_text(double value, Type type) {
  if (is_float(type)) return float_text(value, type);
  if (type == Type::kPred) return value != 0 ? "true" : "false";
  if (value < 0) return fmt::format("{}", static_cast<std::int64_t>(value));
  return fmt::format("{}", static_cast<std::uint64_t>(value));
}

/// A wrong call is a bug of its caller.
void check_same(bool holds, std::string_view operation, const Tensor& a, const Tensor& b) {
  if (holds) return;
  const std::string message = fmt::format("{} of {} ({}) and {} ({})", operation, a.name,
                                          a.type_text(), b.name, b.type_text());
  MILLRACE_CHECK(holds, message.c_str());
}

/// To the other's shape, if it is a scalar.
Tensor like(const Tensor& x, const Tensor& other) {
  if (x.shape.empty() && !other.shape.empty()) return broadcast(x, other.shape, {});
  return x;
}

Tensor binary(std::string_view operation, const Tensor& left, const Tensor& right) {
  const Tensor a = like(left, right);
  const Tensor b = like(right, left);
  check_same(a.shape == b.shape && a.type == b.type, operation, a, b);
  return a.builder->define(
      a.type, a.shape,
      fmt::format("stablehlo.{} {}, {} : {}", operation, a.name, b.name, a.type_text()));
}

Tensor unary(std::string_view operation, const Tensor& x) {
  return x.builder->define(x.type, x.shape,
                           fmt::format("stablehlo.{} {} : {}", operation, x.name, x.type_text()));
}

bool is_kept(const std::vector<std::int64_t>& gone, std::int64_t dimension) {
  return std::ranges::find(gone, dimension) == gone.end();
}

Tensor reduce(std::string_view operation, const Tensor& x, double start,
              const std::vector<std::int64_t>& dimensions) {
  if (dimensions.empty()) return x;
  Shape shape;
  for (std::int64_t i = 0; i < x.rank(); ++i)
    if (is_kept(dimensions, i)) shape.push_back(x.shape[static_cast<std::size_t>(i)]);
  const Tensor init = scalar(*x.builder, start, x.type);
  return x.builder->define(
      x.type, shape,
      fmt::format("stablehlo.reduce({} init: {}) applies stablehlo.{} across dimensions = [{}] : "
                  "({}, {}) -> {}",
                  x.name, init.name, operation, fmt::join(dimensions, ", "), x.type_text(),
                  init.type_text(), tensor_type(x.type, shape)));
}

/// Float32 products are float32's on every device; left to themselves some round their operands.
std::string_view precision_of(const Tensor& x) {
  return x.type == Type::kFloat32 ? "HIGHEST" : "DEFAULT";
}

/// "b01f" as "[b, 0, 1, f]".
std::string labels(std::string_view letters) {
  return fmt::format("[{}]", fmt::join(letters, ", "));
}

std::int64_t size_at(const Tensor& x, std::string_view letters, char label) {
  return x.shape.at(letters.find(label));
}

std::int64_t dilated(std::int64_t size, std::int64_t dilation) { return (size - 1) * dilation + 1; }

std::string_view kind_of(Type type) {
  if (is_float(type)) return "FLOAT";
  return type == Type::kInt32 || type == Type::kInt64 ? "SIGNED" : "UNSIGNED";
}

/// An operation's region: a function of two scalars.
std::string region(std::string_view operation, Type type) {
  const std::string value = tensor_type(type, {});
  const bool compares = operation == "compare";
  const std::string line =
      compares ? fmt::format("stablehlo.compare GE, %left, %right, {} : ({}, {}) -> tensor<i1>",
                             kind_of(type), value, value)
               : fmt::format("stablehlo.{} %left, %right : {}", operation, value);
  return fmt::format(
      "{{\n      ^bb0(%left: {0}, %right: {0}):\n        %both = {1}\n        stablehlo.return "
      "%both "
      ": {2}\n    }}",
      value, line, compares ? "tensor<i1>" : value);
}

std::string window_text(const Window& window) {
  return fmt::format(
      "{{window_dimensions = array<i64: 1, {}, {}, 1>, window_strides = array<i64: 1, {}, {}, 1>, "
      "padding = dense<[[0, 0], [{}, {}], [{}, {}], [0, 0]]> : tensor<4x2xi64>}}",
      window.size[0], window.size[1], window.stride[0], window.stride[1], window.low[0],
      window.high[0], window.low[1], window.high[1]);
}

Tensor reduce_window(std::string_view operation, const Tensor& x, double start,
                     const Window& window) {
  Shape shape = x.shape;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t room = shape[i + 1] + window.low[i] + window.high[i] - window.size[i];
    shape[i + 1] = room / window.stride[i] + 1;
  }
  const Tensor init = scalar(*x.builder, start, x.type);
  return x.builder->define(
      x.type, shape,
      fmt::format("\"stablehlo.reduce_window\"({}, {}) ({}) {} : ({}, {}) -> {}", x.name, init.name,
                  region(operation, x.type), window_text(window), x.type_text(), init.type_text(),
                  tensor_type(x.type, shape)));
}

std::string nested(std::span<const float> values, std::span<const std::int64_t> shape) {
  if (shape.empty()) return float_text(static_cast<double>(values[0]), Type::kFloat32);
  std::string text = "[";
  const std::size_t each = values.size() / static_cast<std::size_t>(shape[0]);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape[0]); ++i)
    text += (i == 0 ? "" : ", ") + nested(values.subspan(i * each, each), shape.subspan(1));
  return text + "]";
}

std::string_view order_text(Order order) {
  static constexpr std::array<std::string_view, 6> kTexts = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return kTexts[static_cast<std::size_t>(order)];
}

}  // namespace

// A scalar, broadcast: a whole tensor of constants would be folded by the compiler, value by value.
Tensor splat(Builder& builder, double value, Type type, const Shape& shape) {
  const Tensor one = builder.define(type, {},
                                    fmt::format("stablehlo.constant dense<{}> : {}",
                                                value_text(value, type), tensor_type(type, {})));
  return broadcast(one, shape, {});
}
Tensor splat_like(const Tensor& like, double value) {
  return splat(*like.builder, value, like.type, like.shape);
}
Tensor scalar(Builder& builder, double value, Type type) { return splat(builder, value, type, {}); }

Tensor integer(Builder& builder, std::uint64_t value, Type type) {
  return builder.define(
      type, {}, fmt::format("stablehlo.constant dense<{}> : {}", value, tensor_type(type, {})));
}

Tensor constant(Builder& builder, std::span<const float> values, const Shape& shape) {
  return builder.define(Type::kFloat32, shape,
                        fmt::format("stablehlo.constant dense<{}> : {}", nested(values, shape),
                                    tensor_type(Type::kFloat32, shape)));
}

Tensor iota(Builder& builder, Type type, const Shape& shape, std::int64_t dimension) {
  return builder.define(
      type, shape,
      fmt::format("stablehlo.iota dim = {} : {}", dimension, tensor_type(type, shape)));
}

Tensor operator+(const Tensor& a, const Tensor& b) { return binary("add", a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return binary("subtract", a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return binary("multiply", a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return binary("divide", a, b); }
Tensor operator+(const Tensor& a, double b) { return a + splat_like(a, b); }
Tensor operator-(const Tensor& a, double b) { return a - splat_like(a, b); }
Tensor operator*(const Tensor& a, double b) { return a * splat_like(a, b); }
Tensor operator/(const Tensor& a, double b) { return a / splat_like(a, b); }
Tensor operator+(double a, const Tensor& b) { return splat_like(b, a) + b; }
Tensor operator-(double a, const Tensor& b) { return splat_like(b, a) - b; }
Tensor operator*(double a, const Tensor& b) { return splat_like(b, a) * b; }
Tensor operator/(double a, const Tensor& b) { return splat_like(b, a) / b; }
Tensor operator-(const Tensor& a) { return unary("negate", a); }
Tensor max(const Tensor& a, const Tensor& b) { return binary("maximum", a, b); }
Tensor max(const Tensor& a, double b) { return max(a, splat_like(a, b)); }
Tensor min(const Tensor& a, const Tensor& b) { return binary("minimum", a, b); }
Tensor min(const Tensor& a, double b) { return min(a, splat_like(a, b)); }

Tensor abs(const Tensor& x) { return unary("abs", x); }
Tensor sign(const Tensor& x) { return unary("sign", x); }
Tensor exp(const Tensor& x) { return unary("exponential", x); }
Tensor expm1(const Tensor& x) { return unary("exponential_minus_one", x); }
Tensor log(const Tensor& x) { return unary("log", x); }
Tensor log1p(const Tensor& x) { return unary("log_plus_one", x); }
Tensor sqrt(const Tensor& x) { return unary("sqrt", x); }
Tensor rsqrt(const Tensor& x) { return unary("rsqrt", x); }
Tensor logistic(const Tensor& x) { return unary("logistic", x); }

Tensor both(const Tensor& a, const Tensor& b) { return binary("and", a, b); }
Tensor exclusive_or(const Tensor& a, const Tensor& b) { return binary("xor", a, b); }
Tensor inverse(const Tensor& a) { return unary("not", a); }
Tensor shift_right(const Tensor& a, std::int64_t bits) {
  return binary("shift_right_logical", a, splat_like(a, static_cast<double>(bits)));
}
Tensor shift_left(const Tensor& a, std::int64_t bits) {
  return binary("shift_left", a, splat_like(a, static_cast<double>(bits)));
}

Tensor compare(const Tensor& left, Order order, const Tensor& right) {
  const Tensor a = like(left, right);
  const Tensor b = like(right, left);
  check_same(a.shape == b.shape && a.type == b.type, "comparison", a, b);
  return a.builder->define(
      Type::kPred, a.shape,
      fmt::format("stablehlo.compare {}, {}, {}, {} : ({}, {}) -> {}", order_text(order), a.name,
                  b.name, kind_of(a.type), a.type_text(), b.type_text(),
                  tensor_type(Type::kPred, a.shape)));
}
Tensor compare(const Tensor& a, Order order, double b) {
  return compare(a, order, splat_like(a, b));
}

Tensor is_finite(const Tensor& x) {
  return x.builder->define(Type::kPred, x.shape,
                           fmt::format("stablehlo.is_finite {} : ({}) -> {}", x.name, x.type_text(),
                                       tensor_type(Type::kPred, x.shape)));
}

Tensor select(const Tensor& flags, const Tensor& a, const Tensor& b) {
  check_same(a.shape == b.shape && a.type == b.type, "choice", a, b);
  check_same(flags.shape.empty() || flags.shape == a.shape, "choice", flags, a);
  return a.builder->define(a.type, a.shape,
                           fmt::format("stablehlo.select {}, {}, {} : {}, {}", flags.name, a.name,
                                       b.name, flags.type_text(), a.type_text()));
}
Tensor select(const Tensor& flags, const Tensor& a, double b) {
  return select(flags, a, splat_like(a, b));
}

Tensor convert(const Tensor& x, Type type) {
  if (x.type == type) return x;
  return x.builder->define(type, x.shape,
                           fmt::format("stablehlo.convert {} : ({}) -> {}", x.name, x.type_text(),
                                       tensor_type(type, x.shape)));
}
Tensor float32(const Tensor& x) { return convert(x, Type::kFloat32); }

Tensor same_bits(const Tensor& x, Type type) {
  return x.builder->define(type, x.shape,
                           fmt::format("stablehlo.bitcast_convert {} : ({}) -> {}", x.name,
                                       x.type_text(), tensor_type(type, x.shape)));
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (x.shape == shape) return x;
  return x.builder->define(x.type, shape,
                           fmt::format("stablehlo.reshape {} : ({}) -> {}", x.name, x.type_text(),
                                       tensor_type(x.type, shape)));
}

Tensor transpose(const Tensor& x, const std::vector<std::int64_t>& permutation) {
  Shape shape;
  for (const std::int64_t from : permutation)
    shape.push_back(x.shape.at(static_cast<std::size_t>(from)));
  return x.builder->define(
      x.type, shape,
      fmt::format("stablehlo.transpose {}, dims = [{}] : ({}) -> {}", x.name,
                  fmt::join(permutation, ", "), x.type_text(), tensor_type(x.type, shape)));
}

Tensor broadcast(const Tensor& x, const Shape& shape, const std::vector<std::int64_t>& dimensions) {
  if (x.shape == shape) return x;
  return x.builder->define(
      x.type, shape,
      fmt::format("stablehlo.broadcast_in_dim {}, dims = [{}] : ({}) -> {}", x.name,
                  fmt::join(dimensions, ", "), x.type_text(), tensor_type(x.type, shape)));
}
Tensor along(const Tensor& vector, std::int64_t dimension, const Shape& shape) {
  return broadcast(vector, shape, {dimension});
}

Tensor reverse(const Tensor& x, const std::vector<std::int64_t>& dimensions) {
  return x.builder->define(x.type, x.shape,
                           fmt::format("stablehlo.reverse {}, dims = [{}] : {}", x.name,
                                       fmt::join(dimensions, ", "), x.type_text()));
}

Tensor concatenate(const std::vector<Tensor>& parts, std::int64_t dimension) {
  MILLRACE_CHECK(!parts.empty(), "nothing to concatenate");
  if (parts.size() == 1) return parts[0];
  Shape shape = parts[0].shape;
  std::int64_t& size = shape.at(static_cast<std::size_t>(dimension));
  size = 0;
  std::vector<std::string> names;
  std::vector<std::string> types;
  for (const Tensor& part : parts) {
    size += part.shape.at(static_cast<std::size_t>(dimension));
    names.push_back(part.name);
    types.push_back(part.type_text());
  }
  return parts[0].builder->define(
      parts[0].type, shape,
      fmt::format("stablehlo.concatenate {}, dim = {} : ({}) -> {}", fmt::join(names, ", "),
                  dimension, fmt::join(types, ", "), tensor_type(parts[0].type, shape)));
}

Tensor slice(const Tensor& x, std::int64_t dimension, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape;
  std::vector<std::string> ranges;
  for (std::int64_t i = 0; i < x.rank(); ++i) {
    const bool cut = i == dimension;
    const std::int64_t from = cut ? begin : 0;
    const std::int64_t to = cut ? end : shape[static_cast<std::size_t>(i)];
    ranges.push_back(fmt::format("{}:{}", from, to));
    shape[static_cast<std::size_t>(i)] = to - from;
  }
  if (shape == x.shape) return x;
  return x.builder->define(
      x.type, shape,
      fmt::format("stablehlo.slice {} [{}] : ({}) -> {}", x.name, fmt::join(ranges, ", "),
                  x.type_text(), tensor_type(x.type, shape)));
}

Tensor pad(const Tensor& x, const Padding& padding) {
  Shape shape = x.shape;
  for (std::size_t i = 0; i < shape.size(); ++i)
    shape[i] += padding.low[i] + padding.high[i] + (shape[i] - 1) * padding.interior[i];
  const Tensor zero = scalar(*x.builder, 0, x.type);
  return x.builder->define(
      x.type, shape,
      fmt::format("stablehlo.pad {}, {}, low = [{}], high = [{}], interior = [{}] : ({}, {}) -> {}",
                  x.name, zero.name, fmt::join(padding.low, ", "), fmt::join(padding.high, ", "),
                  fmt::join(padding.interior, ", "), x.type_text(), zero.type_text(),
                  tensor_type(x.type, shape)));
}

Tensor sum(const Tensor& x, const std::vector<std::int64_t>& dimensions) {
  return reduce("add", x, 0, dimensions);
}
Tensor largest(const Tensor& x, const std::vector<std::int64_t>& dimensions) {
  return reduce("maximum", x, -std::numeric_limits<double>::infinity(), dimensions);
}
Tensor all(const Tensor& flags, const std::vector<std::int64_t>& dimensions) {
  return reduce("and", flags, 1, dimensions);
}
// Nothing is fused into a sort, unlike a reduction, and it is not taken out again, unlike a
// barrier.
Tensor computed_once(const Tensor& x) {
  const Tensor one = reshape(x, {1});
  const Tensor twice = concatenate({one, one}, 0);
  const Tensor sorted = x.builder->define(
      x.type, twice.shape,
      fmt::format(
          "\"stablehlo.sort\"({}) ({}) {{dimension = 0 : i64, is_stable = false}} : ({}) -> {}",
          twice.name, region("compare", x.type), twice.type_text(), twice.type_text()));
  return reshape(slice(sorted, 0, 0, 1), {});
}
std::vector<std::int64_t> dimensions_of(const Tensor& x) {
  std::vector<std::int64_t> dimensions(x.shape.size());
  std::iota(dimensions.begin(), dimensions.end(), 0);
  return dimensions;
}

Tensor take_rows(const Tensor& matrix, const Tensor& rows) {
  const Shape shape = {rows.shape[0], matrix.shape[1]};
  const Tensor index = reshape(rows, {rows.shape[0], 1});
  return matrix.builder->define(
      matrix.type, shape,
      fmt::format(
          "\"stablehlo.gather\"({}, {}) {{dimension_numbers = #stablehlo.gather<offset_dims = "
          "[1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, "
          "slice_sizes = array<i64: 1, {}>, indices_are_sorted = false}} : ({}, {}) -> {}",
          matrix.name, index.name, matrix.shape[1], matrix.type_text(), index.type_text(),
          tensor_type(matrix.type, shape)));
}

Tensor sum_to_rows(const Tensor& x, const Tensor& rows, std::int64_t count) {
  const Tensor zeros = splat(*x.builder, 0, x.type, {count, x.shape[1]});
  const Tensor index = reshape(rows, {rows.shape[0], 1});
  return x.builder->define(
      x.type, zeros.shape,
      fmt::format("\"stablehlo.scatter\"({}, {}, {}) ({}) {{scatter_dimension_numbers = "
                  "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
                  "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, indices_are_sorted = "
                  "false, unique_indices = false}} : ({}, {}, {}) -> {}",
                  zeros.name, index.name, x.name, region("add", x.type), zeros.type_text(),
                  index.type_text(), x.type_text(), zeros.type_text()));
}

Tensor dot(const Tensor& a, std::int64_t a_dimension, const Tensor& b, std::int64_t b_dimension) {
  check_same(a.type == b.type, "product", a, b);
  Shape shape;
  for (std::int64_t i = 0; i < a.rank(); ++i)
    if (i != a_dimension) shape.push_back(a.shape[static_cast<std::size_t>(i)]);
  for (std::int64_t i = 0; i < b.rank(); ++i)
    if (i != b_dimension) shape.push_back(b.shape[static_cast<std::size_t>(i)]);
  return a.builder->define(
      Type::kFloat32, shape,
      fmt::format("stablehlo.dot_general {}, {}, contracting_dims = [{}] x [{}], precision = [{}, "
                  "{}] : ({}, {}) -> {}",
                  a.name, b.name, a_dimension, b_dimension, precision_of(a), precision_of(b),
                  a.type_text(), b.type_text(), tensor_type(Type::kFloat32, shape)));
}

Tensor batch_dot(const Tensor& a, std::int64_t a_dimension, const Tensor& b,
                 std::int64_t b_dimension) {
  check_same(a.type == b.type, "product", a, b);
  const auto other = [](const Tensor& x, std::int64_t dimension) {
    return x.shape[static_cast<std::size_t>(5 - dimension)];
  };
  const Shape shape = {a.shape[0], a.shape[1], other(a, a_dimension), other(b, b_dimension)};
  return a.builder->define(
      Type::kFloat32, shape,
      fmt::format("stablehlo.dot_general {}, {}, batching_dims = [0, 1] x [0, 1], contracting_dims "
                  "= [{}] x [{}], precision = [{}, {}] : ({}, {}) -> {}",
                  a.name, b.name, a_dimension, b_dimension, precision_of(a), precision_of(b),
                  a.type_text(), b.type_text(), tensor_type(Type::kFloat32, shape)));
}

Tensor convolution(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options) {
  check_same(x.type == kernel.type, "convolution", x, kernel);
  Shape shape(4);
  shape[options.output.find('b')] = size_at(x, options.input, 'b') / options.batch_groups;
  shape[options.output.find('f')] = size_at(kernel, options.kernel, 'o');
  for (std::size_t i = 0; i < 2; ++i) {
    const char label = i == 0 ? '0' : '1';
    const std::int64_t room =
        dilated(size_at(x, options.input, label), options.input_dilation[i]) + options.low[i] +
        options.high[i] -
        dilated(size_at(kernel, options.kernel, label), options.kernel_dilation[i]);
    shape[options.output.find(label)] = room / options.stride[i] + 1;
  }
  return x.builder->define(
      Type::kFloat32, shape,
      fmt::format(
          "stablehlo.convolution({}, {}) dim_numbers = {}x{}->{}, window = {{stride = [{}], pad = "
          "[[{}, {}], [{}, {}]], lhs_dilate = [{}], rhs_dilate = [{}]}} {{batch_group_count = {} : "
          "i64, feature_group_count = {} : i64, precision_config = [#stablehlo<precision {}>, "
          "#stablehlo<precision {}>]}} : ({}, {}) -> {}",
          x.name, kernel.name, labels(options.input), labels(options.kernel),
          labels(options.output), fmt::join(options.stride, ", "), options.low[0], options.high[0],
          options.low[1], options.high[1], fmt::join(options.input_dilation, ", "),
          fmt::join(options.kernel_dilation, ", "), options.batch_groups, options.feature_groups,
          precision_of(x), precision_of(kernel), x.type_text(), kernel.type_text(),
          tensor_type(Type::kFloat32, shape)));
}

Tensor window_sum(const Tensor& x, const Window& window) {
  return reduce_window("add", x, 0, window);
}
Tensor window_max(const Tensor& x, const Window& window) {
  return reduce_window("maximum", x, -std::numeric_limits<double>::infinity(), window);
}

Tensor scatter_to_max(const Tensor& x, const Tensor& source, const Window& window) {
  const Tensor zero = scalar(*x.builder, 0, x.type);
  return x.builder->define(
      x.type, x.shape,
      fmt::format("\"stablehlo.select_and_scatter\"({}, {}, {}) ({}, {}) {} : ({}, {}, {}) -> {}",
                  x.name, source.name, zero.name, region("compare", x.type), region("add", x.type),
                  window_text(window), x.type_text(), source.type_text(), zero.type_text(),
                  x.type_text()));
}

Tensor sum_over_replicas(const Tensor& x) {
  const int replicas = x.builder->replicas();
  if (replicas == 1) return x;
  std::vector<int> all(static_cast<std::size_t>(replicas));
  std::iota(all.begin(), all.end(), 0);
  return x.builder->define(
      x.type, x.shape,
      fmt::format("\"stablehlo.all_reduce\"({}) ({}) {{replica_groups = dense<[[{}]]> : "
                  "tensor<1x{}xi64>}} : ({}) -> {}",
                  x.name, region("add", x.type), fmt::join(all, ", "), replicas, x.type_text(),
                  x.type_text()));
}

Tensor gather_over_replicas(const Tensor& x) {
  const int replicas = x.builder->replicas();
  if (replicas == 1) return x;
  std::vector<int> all(static_cast<std::size_t>(replicas));
  std::iota(all.begin(), all.end(), 0);
  Shape shape = x.shape;
  shape[0] *= replicas;
  return x.builder->define(
      x.type, shape,
      fmt::format("\"stablehlo.all_gather\"({}) {{all_gather_dim = 0 : i64, replica_groups = "
                  "dense<[[{}]]> : tensor<1x{}xi64>}} : ({}) -> {}",
                  x.name, fmt::join(all, ", "), replicas, x.type_text(),
                  tensor_type(x.type, shape)));
}

Tensor own_replica(Builder& builder) {
  if (builder.replicas() == 1) return scalar(builder, 0, Type::kInt32);
  return convert(builder.define(Type::kUint32, {}, "stablehlo.replica_id : tensor<ui32>"),
                 Type::kInt32);
}

}  // namespace millrace::trainer::hlo
