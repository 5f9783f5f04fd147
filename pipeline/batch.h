// Batch: a full, fixed-shape set of slots, and the mask that says which of them hold a sample.
//
// Every batch of a pipeline has the same shape, but for an epoch's last one with
// BatchOptions::partial. A slot without a sample (the end of an epoch, a sample skipped by the
// fault policy) has valid[i] == 0 and repeats a valid slot's values. Copies share the buffer, which
// returns to its pool when the last copy is destroyed.
//
// Threads: as a value; the arrays that copies share are not to be written to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/array_view.h"
#include "io/base/trace.h"
#include "io/bytes.h"
#include "pipeline/position.h"

namespace millrace::pipeline {

/// One field of all slots: (N, ...) densely packed, 64-byte aligned.
struct BatchField {
  std::string name;
  decode::ArraySpec spec;  ///< of the whole batch: shape[0] is the batch size
  std::span<std::byte> data;

  /// The values as T's. Requires: T is the type that spec.dtype names, which is not checked.
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
  }

  /// Eigen maps of the values; include decode/eigen.h to use them. tensor(): all axes, (N, H, W, C)
  /// for images. matrix(): (N, values of a sample). vector(): (N), for labels. Throws:
  /// InvalidArgument for another type or number of dimensions.
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

/// A field whose values differ in length: slot i has the bytes from offsets[i] to offsets[i + 1]. A
/// masked slot has none.
struct RaggedField {
  std::string name;
  std::vector<std::int64_t> offsets;  ///< (N + 1), ascending from 0 to data.size()
  io::Bytes data;

  /// Of slot `i`. Lifetime: this field's `data`. Requires: 0 <= i < N.
  std::span<const std::byte> value(std::int64_t i) const {
    const auto slot = static_cast<std::size_t>(i);
    return data.span().subspan(static_cast<std::size_t>(offsets[slot]),
                               static_cast<std::size_t>(offsets[slot + 1] - offsets[slot]));
  }
  std::string_view text(std::int64_t i) const {
    const auto bytes = value(i);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// Masks the slots from `first` on.
  void cut(std::int64_t first);
};

/// Which of the epoch's slots, counted over all devices of all processes, a batch has: its i-th is
/// number first + i * stride.
struct SlotNumbers {
  std::int64_t first = 0;
  std::int64_t stride = 0;  ///< 0: not known
};

/// What a device has made of a batch in memory of its own: each kind of device derives its own.
struct Landed {
  Landed() = default;
  virtual ~Landed() = default;
  Landed(const Landed&) = delete;
  Landed& operator=(const Landed&) = delete;
};

struct Batch {
  /// From 0 in each epoch, of this process: batch b is one of device b mod devices.
  std::int64_t index = 0;
  std::uint32_t epoch = 0;
  /// N, the number of slots.
  std::int64_t size = 0;
  std::int64_t num_valid = 0;
  std::vector<std::uint8_t> valid;  ///< (N), 1 where the slot has a sample, else 0
  std::vector<std::string> keys;    ///< (N), empty where the slot is masked
  std::vector<BatchField> fields;
  std::vector<RaggedField> ragged;  ///< one of each RawField, in their order
  /// Keys what is drawn for a sample while a model trains. A feed of one's own need not set them.
  SlotNumbers slots;
  /// Where the pipeline stands once this batch has been used: for a checkpoint.
  std::shared_ptr<const Position> position;
  /// Keeps the memory that `fields` point into.
  std::shared_ptr<void> owner;
  /// The fields in a device's memory that the host cannot read; null if there are none.
  std::shared_ptr<const Landed> landed;

  /// Throws: InvalidArgument when there is no such field.
  const BatchField& field(std::string_view name) const;
  /// Throws: InvalidArgument when there is no such ragged field.
  const RaggedField& raw(std::string_view name) const;
  /// Of all its fields.
  std::size_t num_bytes() const;
};

/// Says which samples a span is about.
void trace_batch(const Batch& batch, TraceSpan& span);

}  // namespace millrace::pipeline
