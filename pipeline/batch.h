// Batch: a full, fixed-shape set of slots, and the mask that says which of them hold a sample.
//
// Every batch of a pipeline has the same shape. A slot without a sample (the end of an epoch, a
// sample skipped by policy) has valid[i] == 0 and repeats a valid slot's pixels. A copy shares the
// buffers, which go back to their pool with the last copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/array_view.h"
#include "pipeline/position.h"

namespace millrace::pipeline {

/// One field of all slots: (N, ...) densely packed, 64-byte aligned.
struct BatchField {
  std::string name;
  decode::ArraySpec spec;  ///< of the whole batch: shape[0] is the batch size
  std::span<std::byte> data;

  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

  /// As Eigen's maps, with the type and the number of dimensions checked; decode/eigen.h, which
  /// must be included, has them. tensor(): all axes, (N, H, W, C) for images. matrix(): (N, what a
  /// sample has). vector(): (N), for labels. Throw: InvalidArgument.
  template <typename T, int Rank>
  auto tensor() const {
    return decode::EigenView<T>::template tensor<Rank>(view());
  }
  template <typename T>
  auto matrix() const {
    return decode::EigenView<T>::matrix(view());
  }
  template <typename T>
  auto vector() const {
    return decode::EigenView<T>::vector(view());
  }

 private:
  decode::ArrayView view() const { return {name, spec.dtype, spec.shape, data}; }
};

struct Batch {
  /// From 0 in each epoch.
  std::int64_t index = 0;
  std::uint32_t epoch = 0;
  /// N.
  std::int64_t size = 0;
  std::int64_t num_valid = 0;
  std::vector<std::uint8_t> valid;  ///< (N)
  std::vector<std::string> keys;    ///< (N), empty where the slot is masked
  std::vector<BatchField> fields;
  /// Where the pipeline stands once this batch has been used; what a checkpoint saves.
  std::shared_ptr<const Position> position;
  /// Keeps the buffers.
  std::shared_ptr<void> owner;

  /// Throws: InvalidArgument when there is no such field.
  const BatchField& field(std::string_view name) const;
};

}  // namespace millrace::pipeline
