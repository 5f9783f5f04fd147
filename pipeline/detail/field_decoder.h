// FieldDecoder: a compiled field spec, which decodes a sample into its arrays in a slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/array.h"
#include "decode/image_decoder.h"
#include "decode/sample_id.h"
#include "io/base/error.h"
#include "pipeline/fields.h"
#include "wds/sample.h"

namespace millrace::pipeline::detail {

class FieldDecoder {
 public:
  /// One array that it decodes of each sample.
  struct Output {
    std::string name;
    decode::ArraySpec spec;
  };
  using Slots = std::span<const std::span<std::byte>>;

  explicit FieldDecoder(std::vector<Output> outputs) : outputs_(std::move(outputs)) {}
  virtual ~FieldDecoder() = default;

  const std::vector<Output>& outputs() const { return outputs_; }
  /// Fills the slots, one per output, completely. Throws: Error, with the member if it is known.
  /// Threads: any number at once.
  virtual decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                                  Slots slots) const = 0;

 private:
  std::vector<Output> outputs_;
};

/// The suffixes of the members that a field may be decoded from.
class Suffixes {
 public:
  /// "jpg;jpeg;png". Throws: InvalidArgument when there is none.
  explicit Suffixes(const std::string& list);
  /// The first of them that the sample has. Throws: Corrupt when it has none.
  const wds::Field& find(const wds::Sample& sample) const;
  /// The same; null when it has none.
  const wds::Field* find_any(const wds::Sample& sample) const;
  /// Whether the sample has none of the members, or one that is JSON with nothing at `json_key`,
  /// or null; empty: it is not looked into.
  bool lacks(const wds::Sample& sample, const std::string& json_key) const;
  const std::vector<std::string>& all() const { return suffixes_; }

 private:
  std::string list_;
  std::vector<std::string> suffixes_;
};

/// A compiled RawField.
class RaggedDecoder {
 public:
  /// Throws: InvalidArgument.
  explicit RaggedDecoder(const RawField& field);

  const std::string& name() const { return field_.name; }
  std::size_t max_bytes() const { return field_.max_bytes; }
  /// The sample's value, which may share its memory. Throws: Error, with the member if it is known.
  /// Threads: any number at once.
  io::Bytes decode(const wds::Sample& sample) const;

 private:
  io::Bytes value_of(const io::Bytes& data) const;

  RawField field_;
  Suffixes suffixes_;
};

using RaggedDecoders = std::vector<RaggedDecoder>;
RaggedDecoders compile_ragged(const std::vector<FieldSpec>& specs);

/// Runs `decode(bytes)`; a fault gets the member and its offset.
template <typename Decode>
auto decode_member(const wds::Sample& sample, const wds::Field& field, const Decode& decode) {
  try {
    return decode(field.data);
  } catch (Error& error) {
    error.annotate({.member = sample.key + "." + field.suffix, .offset = field.offset});
    throw;
  }
}

/// SampleId::view of a field that draws by its name: it does not depend on the fields beside it.
std::uint64_t view_of(const std::string& name);

/// Every suffix that `fields` may be decoded from; empty if a user's function may ask for any.
std::vector<std::string> wanted_suffixes(const std::vector<FieldSpec>& fields);

/// What all fields of pictures share; may be null.
struct Pictures {
  std::shared_ptr<decode::DecodedCache> cache = nullptr;
  std::shared_ptr<decode::PictureMeter> meter = nullptr;
};

using FieldDecoders = std::vector<std::unique_ptr<const FieldDecoder>>;

/// The field `index` of `specs`; null for a RawField, which has no array. The first field of
/// pictures has view 0, each other one its own (SampleId::view). Throws: InvalidArgument.
std::unique_ptr<const FieldDecoder> compile_field(const std::vector<FieldSpec>& specs,
                                                  std::size_t index, const Pictures& pictures = {});
/// Those that have arrays; numbered views of one member are together, where the first of them
/// stands.
FieldDecoders compile_fields(const std::vector<FieldSpec>& specs, const Pictures& pictures = {});

/// The field's own list, or its codecs'.
std::string suffixes_of(const ImageField& field);
std::unique_ptr<const FieldDecoder> compile_image(const ImageField& field, std::uint64_t view,
                                                  const Pictures& pictures);
std::unique_ptr<const FieldDecoder> compile_paired_images(const PairedImagesField& field,
                                                          std::uint64_t view,
                                                          const Pictures& pictures);

}  // namespace millrace::pipeline::detail
