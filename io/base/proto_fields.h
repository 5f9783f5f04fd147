// ProtoFields: the fields of one protocol buffers message, in order.
//
//   ProtoFields fields(message);
//   for (ProtoFields::Field field; fields.next(field);)
//     if (field.number == 1 && field.type == ProtoFields::kBytes) names.push_back(field.bytes);
//
// Source: "Encoding", protobuf.dev. Groups, which are deprecated, are not read.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string_view>

namespace millrace {

class ProtoFields {
 public:
  enum Type : std::uint8_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

  struct Field {
    std::uint64_t number = 0;
    Type type = kVarint;
    std::uint64_t value = 0;      ///< of a varint
    std::string_view bytes = {};  ///< of the other types
  };

  /// Lifetime: the message's bytes outlive it, and its fields.
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  /// False at the message's end. Throws: Corrupt.
  bool next(Field& field);
  /// Of numbers that are packed. Throws: Corrupt.
  std::uint64_t varint();
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t size);

  std::string_view rest_;
};

}  // namespace millrace
