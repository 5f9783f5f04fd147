// JSON from outside, parsed within limits: the one door to nlohmann's parser.
//
// A document is foreign until it is checked: 60 MB of "[" made nlohmann's parser take 4.5 GB. So
// the text is scanned once before anything is built of it: its size, its nesting, the memory that
// its values will take and keys that stand twice are found without allocating for them. Every
// document that millrace parses (manifest, index, checkpoint, header, field) comes through
// parse_json().
//
//   #include <nlohmann/json.hpp>   // in the .cc: this header names no third party's
//   const auto json = parse_json<nlohmann::json>(text, "manifest", {.depth = 8});
//   const auto count = json_integer<std::uint32_t>(json.at("count"), "manifest: count");
//
// Threads: functions of their arguments alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/error.h"

namespace millrace {

/// What a document may take. The defaults hold every document that millrace writes.
struct JsonLimits {
  /// Of the text.
  std::size_t bytes = std::size_t{64} * 1024 * 1024;
  /// Objects and lists inside one another.
  std::size_t depth = 32;
  /// Of the parsed document, estimated from above.
  std::size_t memory_bytes = std::size_t{512} * 1024 * 1024;
  /// Whether a key that stands twice in one object is a fault. nlohmann would keep the last.
  bool unique_keys = true;
};

/// Scans `text` for what would break a limit; whether it is JSON is the parser's to say.
/// `what` begins the message: "manifest". Throws: Corrupt, with the fault's offset in the message:
/// the text may be a part of a file, so where() is left to who knows.
/// Buffers: at most 16 bytes a key of the objects that are open.
void check_json_limits(std::string_view text, std::string_view what, const JsonLimits& limits);

/// Throws: Corrupt: `what` is not JSON, by the fault at `offset` of `text`.
[[noreturn]] void throw_not_json(std::string_view text, std::string_view what, std::size_t offset);

/// The document in `text`. `Json` is nlohmann::json or nlohmann::ordered_json.
/// Throws: Corrupt, saying at which byte, when it breaks a limit or is not JSON.
template <typename Json>
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {}) {
  check_json_limits(text, what, limits);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const typename Json::parse_error& error) {
    throw_not_json(text, what, error.byte == 0 ? 0 : error.byte - 1);
  } catch (const typename Json::exception&) {
    throw Error(ErrorCode::kCorrupt, std::string(what) + ": a number is beyond any double");
  }
}

/// `value` as a whole number. nlohmann's own get() makes 2^64 - 1 of -1, and anything of 1e300.
/// Throws: Corrupt, beginning with `name`, when it is none or not from `least` to `most`.
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
