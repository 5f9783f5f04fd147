// FieldDecoder: one field, compiled: from a sample to its array in a slot.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "decode/array.h"
#include "decode/image_decoder.h"
#include "pipeline/fields.h"
#include "wds/sample.h"

namespace millrace::pipeline::detail {

class FieldDecoder {
 public:
  virtual ~FieldDecoder() = default;

  virtual const std::string& name() const = 0;
  /// Of one sample.
  virtual const decode::ArraySpec& output() const = 0;
  /// Fills the whole slot. Throws: Error, with the key and member where they are known.
  /// Threads: any number at once.
  virtual void decode(const wds::Sample& sample, const decode::SampleId& id,
                      std::span<std::byte> slot) const = 0;
};

/// Throws: InvalidArgument.
std::unique_ptr<const FieldDecoder> compile_field(const FieldSpec& spec);

}  // namespace millrace::pipeline::detail
