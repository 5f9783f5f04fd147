// JSON from outside, parsed within limits: the only way into nlohmann's parser.
//
// A document is untrusted until it is checked: 60 MB of "[" made nlohmann's parser take 4.5
// GB. So the text is scanned once before anything is built from it: its size, nesting depth,
// estimated memory and duplicate keys are checked without building any value. Every document
// that millrace parses (manifest, index, checkpoint, header, field) goes through
// parse_json().
//
//   #include <nlohmann/json.hpp>   // in the .cc: this header includes no third-party header
//   const auto json = parse_json<nlohmann::json>(text, "manifest", {.depth = 8});
//   const auto count = json_integer<std::uint32_t>(json.at("count"), "manifest: count");
//
// Threads: pure functions, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/error.h"

namespace millrace {

/// Limits for one document. The defaults admit every document that millrace writes.
struct JsonLimits {
  /// Maximum size of the text, in bytes.
  std::size_t bytes = std::size_t{64} * 1024 * 1024;
  /// Maximum nesting of objects and lists.
  std::size_t depth = 32;
  /// Maximum memory of the parsed document, in bytes; the estimate is an upper bound.
  std::size_t memory_bytes = std::size_t{512} * 1024 * 1024;
  /// Whether a duplicate key in one object is a fault. nlohmann would keep the last.
  bool unique_keys = true;
};

/// The document in `text`. `Json` is nlohmann::json or nlohmann::ordered_json; `what` begins the
/// message: "manifest". Throws: Corrupt if it breaks a limit or is not JSON, with the byte offset
/// in the message and not in where(), since the text may be part of a file. Buffers: 16 bytes per
/// key of the objects that are open, and the document.
template <typename Json>
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

/// `value` as an integer; nlohmann's own get() turns -1 into 2^64 - 1 and 1e300 into garbage.
/// Throws: Corrupt, beginning with `name`, if it is not an integer in [`least`, `most`].
template <typename Integer, typename Json>
Integer json_integer(const Json& value, std::string_view name,
                     Integer least = std::numeric_limits<Integer>::min(),
                     Integer most = std::numeric_limits<Integer>::max()) {
  if (value.is_number_unsigned()) {
    const auto number = value.template get<std::uint64_t>();
    if (std::cmp_greater_equal(number, least) && std::cmp_less_equal(number, most))
      return static_cast<Integer>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.template get<std::int64_t>();
    if (std::cmp_greater_equal(number, least) && std::cmp_less_equal(number, most))
      return static_cast<Integer>(number);
  }
  throw Error(ErrorCode::kCorrupt, std::string(name) + " is not a whole number from " +
                                       std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace millrace
