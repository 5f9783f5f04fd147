// The one exception family of millrace.
//
// A call gives a value, an end, or a fault; a fault is an Error. It says what kind it is (a code,
// for programs), what happened (one line, for people) and where. Each layer that an Error passes
// fills in the parts of `where` that it alone knows: io the url and offset, wds the key and member,
// pipeline the stage. The innermost knows best, so annotate() never overwrites.
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
  kNotFound,         ///< The object does not exist, or may not be seen.
  kIo,               ///< The disk or the network failed; the data may be fine.
  kTruncated,        ///< Data ends before it should.
  kCorrupt,          ///< Data contradicts its format or its checksum.
  kUnsupported,      ///< Valid, but nothing that millrace reads.
  kInvalidArgument,  ///< An option or a call that can never work.
  kCancelled,        ///< Somebody asked for the work to stop.
  kExhausted,        ///< A limit or a budget is used up.
};

/// The code's name as it is printed and written to JSON: "Truncated".
std::string_view error_code_name(ErrorCode code);

/// Where a fault lies. An empty member is unknown. `offset` is in bytes, in the object that `url`
/// names.
struct Where {
  std::string url = {};
  std::string key = {};
  std::string member = {};
  std::optional<std::uint64_t> offset = {};
  std::string stage = {};
};

class Error : public std::exception {
 public:
  /// `message` is one line without a final full stop; `where` what the thrower knows.
  Error(ErrorCode code, std::string message, Where where = {});

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const Where& where() const { return where_; }

  /// Fills in those members of where() that are still unknown.
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

/// Throws: InvalidArgument with `message`, unless `holds`. For options and arguments; a caller's
/// bug is MILLRACE_CHECK.
inline void require(bool holds, std::string_view message) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, std::string(message));
}

/// Throws a kIo Error with errno's text: "open x.tar: No such file or directory". ENOENT, ENOTDIR
/// and EACCES become kNotFound.
[[noreturn]] void throw_errno(std::string_view what, const std::string& path, int error_number);

}  // namespace millrace
