// ContrastLoss: a loss that compares the embeddings of a step's valid slots with one another, in
// training those of all ranks. See loss/info_nce.cc, clip.cc.
//
// Threads: as Loss.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "trainer/loss/loss.h"

namespace millrace::trainer::detail {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Shorter embeddings have no direction.
inline constexpr float kLeastNorm = 1e-12F;
inline constexpr float kNever = -std::numeric_limits<float>::infinity();

enum class Lengths { kOne, kAsTheyAre };

struct Contrast {
  std::int64_t parts = 1;  ///< 1: each slot with the others; 2: one part of each with the other's
  float temperature = 1.0F;
  Lengths lengths = Lengths::kOne;
};

/// Of InfoNce, Clip.
template <typename Options>
Contrast contrast_of(const Options& options, std::int64_t parts) {
  if (options.learned) return {.parts = parts, .lengths = Lengths::kAsTheyAre};
  return {.parts = parts, .temperature = options.temperature};
}

template <typename Options>
void list_contrast(FieldList& field, Options& options) {
  field("temperature", options.temperature, {.min = 0, .open_min = true},
        "By which cosines of embeddings are divided");
  field("learned", options.learned,
        "The model has a layer that scales them, by a temperature that it learns");
}

/// Valid slots: which sample each is of, and its embeddings, side by side.
struct Embeddings {
  std::vector<std::int64_t> samples;
  Matrix rows;  ///< each of length 1, or as the model scales it

  std::size_t size() const { return samples.size(); }
};

/// An embedding of this rank beside those of all that it is compared with.
struct ContrastRow {
  const Embeddings& all;
  std::span<const float> positives;  ///< of each slot of all
  std::size_t parts;
  std::size_t part;
  std::size_t self;         ///< among all
  std::span<float> logits;  ///< to each of all; to itself minus infinity

  bool is_itself(std::size_t slot) const { return parts == 1 && slot == self; }
  bool is_positive(std::size_t slot) const {
    return !is_itself(slot) && all.samples[slot] == all.samples[self];
  }
  auto embedding() const { return of_part(part).row(static_cast<Eigen::Index>(self)).transpose(); }
  auto others() const { return of_part(parts - 1 - part); }

 private:
  Eigen::Block<const Matrix> of_part(std::size_t which) const {
    const Eigen::Index width = all.rows.cols() / static_cast<Eigen::Index>(parts);
    return {all.rows, 0, static_cast<Eigen::Index>(which) * width, all.rows.rows(), width};
  }
};

/// Of predictions (N, parts * F).
class ContrastLoss : public Loss {
 public:
  /// `word`: what errors call it.
  ContrastLoss(const char* word, const Contrast& contrast) : word_(word), contrast_(contrast) {}

  TargetKind target() const final { return TargetKind::kSamples; }
  bool is_collective() const final { return true; }
  std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const final;
  LossSums evaluate(const LossInput& input) const final;

 private:
  struct Comparison;

  /// Replaces the row's logits by the derivatives by them of the losses that they are in.
  /// `log_sums`: of each part of each slot of all.
  virtual void differentiate(const ContrastRow& row, std::span<const float> log_sums) const = 0;
  void set_gradient(Comparison& of, const std::vector<float>& log_sums,
                    const LossInput& input) const;

  const char* word_;
  Contrast contrast_;
};

}  // namespace millrace::trainer::detail
