// BatchLayout: where each field of each slot lies in a batch's one buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {

class BatchLayout {
 public:
  /// Throws: InvalidArgument when two fields have one name, or a batch would be too large to count.
  BatchLayout(const std::vector<FieldSpec>& fields, std::int64_t batch_size);

  std::int64_t batch_size() const { return batch_size_; }
  std::size_t num_fields() const { return fields_.size(); }
  const FieldDecoder& decoder(std::size_t field) const { return *fields_[field].decoder; }
  /// Of the whole buffer.
  std::size_t num_bytes() const { return num_bytes_; }
  std::span<std::byte> slot(std::byte* buffer, std::size_t field, std::int64_t slot) const {
    const Entry& entry = fields_[field];
    return {buffer + entry.offset + static_cast<std::size_t>(slot) * entry.slot_bytes,
            entry.slot_bytes};
  }
  /// The fields as a batch of `size` slots shows them; without data when `buffer` is null.
  std::vector<BatchField> show(std::byte* buffer, std::int64_t size) const;

 private:
  struct Entry {
    std::unique_ptr<const FieldDecoder> decoder;
    std::size_t offset = 0;
    std::size_t slot_bytes = 0;
  };
  void add(const FieldSpec& spec);

  std::int64_t batch_size_;
  std::size_t num_bytes_ = 0;
  std::vector<Entry> fields_;
};

}  // namespace millrace::pipeline::detail
