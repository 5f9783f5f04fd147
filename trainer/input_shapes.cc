#include "trainer/input_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "io/base/error.h"

namespace millrace::trainer {
namespace {

using Sides = nn::Shape;

/// Of a sample, without dimensions of 1.
Sides sides_of(std::span<const std::int64_t> shape) {
  Sides sides;
  std::ranges::copy_if(shape.subspan(1), std::back_inserter(sides),
                       [](std::int64_t side) { return side != 1; });
  return sides;
}

/// A graph's images are (channels, height, width), a batch's have the channels last.
Sides shape_in_batch(const nn::Shape& sample, std::int64_t batch_size) {
  Sides shape = {batch_size};
  shape.insert(shape.end(), sample.begin(), sample.end());
  constexpr std::size_t kImage = 4;
  if (shape.size() == kImage) std::rotate(shape.begin() + 1, shape.begin() + 2, shape.end());
  return shape;
}

}  // namespace

bool is_read_as(std::span<const std::int64_t> given, std::span<const std::int64_t> wanted) {
  if (given.empty() || given.front() != wanted.front()) return false;
  const Sides own = sides_of(given);
  const Sides other = sides_of(wanted);
  return own == other ||
         ((own.size() <= 1 || other.size() <= 1) && nn::num_values(own) == nn::num_values(other));
}

void check_inputs(const nn::Graph& graph, const Objective& objective,
                  const pipeline::Batch& batch) {
  const auto& names = objective.inputs();
  for (std::size_t i = 0; i < std::min(names.size(), graph.inputs().size()); ++i) {
    const std::vector<std::int64_t>& given = batch.field(names[i]).spec.shape;
    const Sides wanted = shape_in_batch(graph.node(graph.inputs()[i]).shape, batch.size);
    if (is_read_as(given, wanted)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("field {} is ({}), and the model reads ({}){}", names[i],
                            fmt::join(given, ", "), fmt::join(wanted, ", "),
                            wanted.size() == 4 ? ": batch, height, width, channels" : ""));
  }
}

}  // namespace millrace::trainer
