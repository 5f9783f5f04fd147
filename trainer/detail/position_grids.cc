#include "trainer/detail/position_grids.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

namespace millrace::trainer::detail {
namespace {

constexpr std::size_t kTaps = 4;

/// What a place of the new grid is made of: four places of the old one, some of them the same at an
/// edge.
struct Taps {
  std::array<std::size_t, kTaps> at;
  std::array<double, kTaps> share;
};

/// Keys' cubic convolution with PyTorch's a.
double cubic(double distance) {
  constexpr double kA = -0.75;
  const double d = std::abs(distance);
  if (d <= 1) return ((kA + 2) * d - (kA + 3)) * d * d + 1;
  return d < 2 ? kA * (((d - 5) * d + 8) * d - 4) : 0;
}

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  std::vector<Taps> taps(static_cast<std::size_t>(to));
  const double step = to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0;
  for (std::size_t i = 0; i < taps.size(); ++i) {
    const double place = step * static_cast<double>(i);
    const auto first = static_cast<std::int64_t>(place) - 1;
    for (std::size_t k = 0; k < kTaps; ++k) {
      const std::int64_t at = first + static_cast<std::int64_t>(k);
      taps[i].at[k] = static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, from - 1));
      taps[i].share[k] = cubic(place - static_cast<double>(at));
    }
  }
  return taps;
}

/// The side of the square that (1, 1 + side * side, C) has beside its class token's row; none for
/// other shapes.
std::optional<std::int64_t> square_of(const std::vector<std::int64_t>& shape) {
  if (shape.size() != 3 || shape[0] != 1 || shape[1] < 2) return std::nullopt;
  const auto side =
      static_cast<std::int64_t>(std::llround(std::sqrt(static_cast<double>(shape[1] - 1))));
  if (side * side != shape[1] - 1) return std::nullopt;
  return side;
}

/// One new row of `values`, whose rows have `width` floats and the class token's comes first.
void blend(std::span<const float> values, std::size_t side, const Taps& down, const Taps& across,
           std::span<float> into) {
  for (std::size_t c = 0; c < into.size(); ++c) {
    double sum = 0;
    for (std::size_t i = 0; i < kTaps; ++i)
      for (std::size_t j = 0; j < kTaps; ++j)
        sum +=
            down.share[i] * across.share[j] *
            static_cast<double>(values[(1 + down.at[i] * side + across.at[j]) * into.size() + c]);
    into[c] = static_cast<float>(sum);
  }
}

Tensor resized(const Tensor& tensor, std::int64_t side, const Parameter& entry) {
  std::vector<float> values(tensor.num_values());
  tensor.copy_to(values);
  const auto width = static_cast<std::size_t>(entry.shape[2]);
  std::vector<float> made(entry.size);
  std::copy_n(values.begin(), width, made.begin());
  std::span<float> rest = std::span(made).subspan(width);
  const std::vector<Taps> columns = taps_of(side, entry.grid_width);
  for (const Taps& down : taps_of(side, entry.grid_height)) {
    for (const Taps& across : columns) {
      blend(values, static_cast<std::size_t>(side), down, across, rest.first(width));
      rest = rest.subspan(width);
    }
  }
  const auto bytes = std::as_bytes(std::span<const float>(made));
  return {TensorType::kFloat32, entry.shape, io::Bytes::copy_of(bytes)};
}

}  // namespace

std::vector<std::string> resize_positions(Safetensors& file, const std::vector<FlatTensors>& like) {
  std::vector<std::string> lines;
  for (const FlatTensors& flat : like) {
    for (const Parameter& entry : flat.table->entries()) {
      const auto found = file.tensors.find(flat.prefix + entry.name);
      if (entry.grid_height == 0 || found == file.tensors.end()) continue;
      const Tensor& tensor = found->second;
      const auto side = square_of(tensor.shape);
      if (!side || tensor.shape == entry.shape || tensor.shape[2] != entry.shape[2]) continue;
      lines.push_back(fmt::format("{} is resized from {} x {} places to {} x {}", found->first,
                                  *side, *side, entry.grid_height, entry.grid_width));
      found->second = resized(tensor, *side, entry);
    }
  }
  return lines;
}

}  // namespace millrace::trainer::detail
