#include "io/base/proto_fields.h"

#include "io/base/error.h"

namespace millrace {

bool ProtoFields::next(Field& field) {
  if (rest_.empty()) return false;
  const std::uint64_t tag = varint();
  field = {.number = tag >> 3U, .type = static_cast<Type>(tag & 7U)};
  switch (field.type) {
    case kVarint:
      field.value = varint();
      return true;
    case kEightBytes:
      field.bytes = take(8);
      return true;
    case kBytes:
      field.bytes = take(varint());
      return true;
    case kFourBytes:
      field.bytes = take(4);
      return true;
  }
  throw Error(ErrorCode::kCorrupt, "not a protocol buffer");
}

std::uint64_t ProtoFields::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80U) return value;
  }
  throw Error(ErrorCode::kCorrupt, "a number of more than ten bytes");
}

std::string_view ProtoFields::take(std::uint64_t size) {
  if (size > rest_.size()) throw Error(ErrorCode::kCorrupt, "a field longer than its message");
  const std::string_view bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return bytes;
}

}  // namespace millrace
