// Embeddings of a step's valid slots: those of a batch, and those of all ranks, for losses that
// compare slots with one another. See loss/info_nce.cc, clip.cc.
//
// Threads: gather() is a collective.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "trainer/loss/loss.h"

namespace millrace::trainer::detail {

using Vector = Eigen::VectorXf;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Shorter embeddings have no direction.
inline constexpr float kLeastNorm = 1e-12F;
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

inline Eigen::Map<Vector> vector_of(std::span<float> values) {
  return {values.data(), static_cast<Eigen::Index>(values.size())};
}

inline std::span<float> row_of(Matrix& matrix, std::size_t row) {
  const auto columns = static_cast<std::size_t>(matrix.cols());
  return {matrix.data() + row * columns, columns};
}

/// Valid slots: which sample each is of, and its embeddings, side by side.
struct Embeddings {
  std::vector<std::int64_t> samples;
  Matrix rows;

  std::size_t size() const { return samples.size(); }
};

/// A batch's own, in the order of its slots.
struct OwnEmbeddings {
  Embeddings of;
  std::vector<std::size_t> slots;
  std::vector<float> norms;  ///< before they had length 1: one for each part of each slot
};

enum class Lengths { kOne, kAsTheyAre };

/// Of predictions (N, parts * F).
OwnEmbeddings own_embeddings(const LossInput& input, std::size_t parts, Lengths lengths);

/// Those of all ranks, in the ranks' order.
struct AllEmbeddings {
  Embeddings of;
  std::size_t first_own = 0;
  bool is_full = true;  ///< no slot of any rank is masked
};

AllEmbeddings gather(const OwnEmbeddings& own, const LossInput& input);
/// Numbers of the ranks' slots.
std::vector<float> gather(const std::vector<float>& own, Collectives* group);
/// A rank without a sample: as many gathers as the others make.
LossSums join(Collectives* group);

/// How many slots there are of each slot's sample, itself included.
std::vector<float> count_of_sample(const std::vector<std::int64_t>& samples);

/// Throws: InvalidArgument, in the loss's name, for shapes that do not fit.
void check_embeddings(const LossInput& input, std::int64_t parts, const char* loss);
/// Throws: InvalidArgument for the slots of a step that are all of one sample.
void check_comparable(const std::vector<float>& of_sample, const char* loss);

}  // namespace millrace::trainer::detail
