// HttpHead: a response's status and header fields, and parsers for the fields that io uses.
//
// Source: RFC 9110 (Content-Range §14.4, Retry-After §10.2.3, validators §8.8).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::io::detail {

class HttpHead {
 public:
  long status() const { return status_; }
  /// The field's value; empty when the server did not send it. Names are lower-case.
  std::string_view field(std::string_view name) const;
  /// True once the empty line of a final (not 1xx) response has arrived.
  bool complete() const { return complete_; }

  /// Takes one line as received, including its line ending. A new status line clears the fields
  /// before it.
  void add_line(std::string_view line);

 private:
  long status_ = 0;
  bool complete_ = false;
  std::map<std::string, std::string, std::less<>> fields_;
};

/// "bytes 5-9/10": `first` and `last` are inclusive offsets. "bytes */10": only `total`.
struct ContentRange {
  std::optional<std::uint64_t> first = {};
  std::optional<std::uint64_t> last = {};
  std::optional<std::uint64_t> total = {};
};

/// Nullopt if the field is missing or malformed by RFC 9110.
std::optional<ContentRange> content_range(const HttpHead& head);
std::optional<std::uint64_t> content_length(const HttpHead& head);
/// The server's own time, in seconds since 1970.
std::optional<std::int64_t> server_time(const HttpHead& head);
/// How long the server asks us to wait, at most a day. A date is taken relative to the server's own
/// Date.
std::optional<std::chrono::seconds> retry_after(const HttpHead& head);
/// The ETag if it is strong, and so usable in If-Match; empty otherwise.
std::string_view strong_etag(const HttpHead& head);

}  // namespace millrace::io::detail
