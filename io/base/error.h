// Error: the only exception type that millrace throws.
//
// A call returns a value, an end, or throws an Error. An Error has a code (for programs), a
// one-line message (for people) and a location. Each layer that it passes through fills in the
// parts of the location that only that layer knows: io the url and offset, wds the key and member,
// pipeline the stage. The innermost layer knows best, so annotate() never overwrites.
//
//   try { reader.next(); }
//   catch (Error& error) { error.annotate({.url = url}); throw; }
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

enum class ErrorCode {
  kNotFound,          ///< The object does not exist.
  kIo,                ///< The disk or the network failed; the data may be fine.
  kTruncated,         ///< Data ends before it should.
  kCorrupt,           ///< Data contradicts its format or its checksum.
  kUnsupported,       ///< Valid, but not supported by millrace.
  kInvalidArgument,   ///< An option or argument that can never work.
  kCancelled,         ///< A stop was requested.
  kExhausted,         ///< A limit or a budget is used up.
  kPermissionDenied,  ///< Access to the object is denied.
  kNotFinite,         ///< A loss, a gradient or a weight is not a finite number.
};

/// The code's name as printed and written to JSON: "Truncated".
std::string_view error_code_name(ErrorCode code);
/// The code of that name; null if there is none.
std::optional<ErrorCode> error_code_of(std::string_view name);

/// The location of a fault; an empty member is unknown. `offset` is in bytes from the start of the
/// object that `url` names. Error prints and keeps no more of a url than io::printable_url() shows.
struct Where {
  std::string url = {};
  std::string key = {};
  std::string member = {};
  std::optional<std::uint64_t> offset = {};
  std::string stage = {};
};

class Error : public std::exception {
 public:
  /// `message`: one line without a full stop; printable() escapes it. `where`: what is known.
  Error(ErrorCode code, std::string message, Where where = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Where& where() const { return where_; }

  /// Fills in the members of where() that are still empty.
  void annotate(const Where& where);

  /// "Truncated: tar ends inside a header (url a.tar, member x.jpg, offset 512)".
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void compose();

  ErrorCode code_;
  std::string message_;
  Where where_;
  std::string what_;
};

/// Whether an object that need not be there is to be taken for missing: it is, or access is denied,
/// as stores answer for one that is missing where its folder may not be listed.
inline bool cannot_be_seen(const Error& error) {
  return error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kPermissionDenied;
}

/// Throws: InvalidArgument with `message` unless `holds`. For options and arguments; use
/// MILLRACE_CHECK for bugs in the caller.
inline void require(bool holds, std::string_view message) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, std::string(message));
}

/// Throws an Error whose message is "WHAT PATH: errno's text" ("open x.tar: No such file or
/// directory"): kNotFound for ENOENT and ENOTDIR, kPermissionDenied for EACCES and EPERM, kIo for
/// all others.
[[noreturn]] void throw_errno(std::string_view what, const std::string& path, int error_number);

}  // namespace millrace
