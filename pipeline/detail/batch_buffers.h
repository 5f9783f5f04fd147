// Where the fields of each slot lie in a batch's one buffer, and the pool that buffers come from.
//
// Threads: a BatchLayout as a value; a BatchPool from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// Where each field of each slot lies.
class BatchLayout {
 public:
  static constexpr std::size_t kMaxFields = 64;

  /// The decoders' outputs, in their order, then `added`. Throws: InvalidArgument when two have one
  /// name, or a batch would be too large to count.
  BatchLayout(const FieldDecoders& decoders, std::int64_t batch_size,
              const RaggedDecoders& ragged = {},
              const std::vector<FieldDecoder::Output>& added = {});

  std::int64_t batch_size() const { return batch_size_; }
  std::size_t num_fields() const { return fields_.size(); }
  /// Of the whole buffer.
  std::size_t num_bytes() const { return num_bytes_; }
  std::span<std::byte> slot(std::byte* buffer, std::size_t field, std::int64_t slot) const {
    const Field& entry = fields_[field];
    return {buffer + entry.offset + static_cast<std::size_t>(slot) * entry.slot_bytes,
            entry.slot_bytes};
  }
  /// The fields of a batch of `size` slots; without data if `buffer` is null.
  std::vector<BatchField> show(std::byte* buffer, std::int64_t size) const;
  std::size_t num_ragged() const { return ragged_.size(); }
  /// The most that a batch's ragged values may be.
  std::size_t ragged_bytes() const { return ragged_bytes_; }
  /// The ragged fields of a batch of `size` slots: `values` has one list each, by slot; fewer slots
  /// than `size`, or none, are filled up with empty values.
  std::vector<RaggedField> join(const std::vector<std::vector<io::Bytes>>& values,
                                std::int64_t size) const;

 private:
  struct Field {
    std::string name;
    decode::ArraySpec spec;  ///< of one sample
    std::size_t offset = 0;
    std::size_t slot_bytes = 0;
  };
  void add_field(const FieldDecoder::Output& output);
  void check_name(const std::string& name) const;
  void add_ragged(const RaggedDecoder& decoder);

  std::int64_t batch_size_;
  std::size_t num_bytes_ = 0;
  std::vector<Field> fields_;
  std::vector<std::string> ragged_;  ///< names
  std::size_t ragged_bytes_ = 0;
};

/// Buffers for batches, all of one size, 64-byte aligned. The last owner of a buffer returns it,
/// from any thread, also after the pool is destroyed; then it is used again.
class BatchPool {
 public:
  /// Keeps at most `max_kept` free buffers of `buffer_bytes`. With `allocate` it keeps none, and
  /// asks for each.
  BatchPool(std::size_t buffer_bytes, std::size_t max_kept, AllocateBuffer allocate = nullptr);
  ~BatchPool();

  /// A free buffer, or a new one. Its content is whatever its last user left. Throws: what
  /// `allocate` throws; InvalidArgument if it returns none, or one that is not aligned.
  std::shared_ptr<std::byte> acquire() const;
  std::size_t buffer_bytes() const;
  /// Buffers in use or kept, times their size.
  std::size_t held_bytes() const;
  /// The most that held_bytes() was.
  std::size_t peak_bytes() const;

 private:
  struct Shared;

  std::shared_ptr<std::byte> allocated() const;

  std::shared_ptr<Shared> shared_;
};

}  // namespace millrace::pipeline::detail
