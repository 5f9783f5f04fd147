// BatchLayout: where each field of each slot lies in a batch's one buffer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
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
  /// Of the whole buffer.
  std::size_t num_bytes() const { return num_bytes_; }
  std::span<std::byte> slot(std::byte* buffer, std::size_t field, std::int64_t slot) const {
    const Field& entry = fields_[field];
    return {buffer + entry.offset + static_cast<std::size_t>(slot) * entry.slot_bytes,
            entry.slot_bytes};
  }
  /// Fills all fields of one slot. Throws: as FieldDecoder.
  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id, std::byte* buffer,
                          std::int64_t slot) const;
  /// The fields as a batch of `size` slots shows them; without data when `buffer` is null.
  std::vector<BatchField> show(std::byte* buffer, std::int64_t size) const;

 private:
  struct Field {
    std::string name;
    decode::ArraySpec spec;  ///< of one sample
    std::size_t offset = 0;
    std::size_t slot_bytes = 0;
  };
  void add_field(const FieldDecoder::Output& output);

  std::int64_t batch_size_;
  std::size_t num_bytes_ = 0;
  std::vector<std::unique_ptr<const FieldDecoder>> decoders_;
  std::vector<Field> fields_;  ///< the decoders' outputs, in their order
};

}  // namespace millrace::pipeline::detail
