#include "io/base/error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "io/base/text.h"
#include "io/base/url_text.h"

namespace millrace {
namespace {

// Upper bounds that leave room for long paths and keys; values quoted in messages are cut much
// shorter by the thrower.
constexpr std::size_t kMaxMessageBytes = 8192;
constexpr std::size_t kMaxPlaceBytes = 4096;

/// Of a number that is no code.
constexpr std::string_view kUnknown = "Unknown";

ErrorCode code_of(int error_number) {
  if (error_number == ENOENT || error_number == ENOTDIR) return ErrorCode::kNotFound;
  if (error_number == EACCES || error_number == EPERM) return ErrorCode::kPermissionDenied;
  if (error_number == ENOMEM) return ErrorCode::kExhausted;
  return ErrorCode::kIo;
}

}  // namespace

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNotFound:
      return "NotFound";
    case ErrorCode::kIo:
      return "Io";
    case ErrorCode::kTruncated:
      return "Truncated";
    case ErrorCode::kCorrupt:
      return "Corrupt";
    case ErrorCode::kUnsupported:
      return "Unsupported";
    case ErrorCode::kInvalidArgument:
      return "InvalidArgument";
    case ErrorCode::kCancelled:
      return "Cancelled";
    case ErrorCode::kExhausted:
      return "Exhausted";
    case ErrorCode::kPermissionDenied:
      return "PermissionDenied";
    case ErrorCode::kNotFinite:
      return "NotFinite";
  }
  return kUnknown;
}

std::optional<ErrorCode> error_code_of(std::string_view name) {
  for (int i = 0;; ++i) {
    const auto code = static_cast<ErrorCode>(i);
    const std::string_view known = error_code_name(code);
    if (known == kUnknown) return std::nullopt;
    if (known == name) return code;
  }
}

Error::Error(ErrorCode code, std::string message, Where where)
    : code_(code), message_(printable(message, kMaxMessageBytes)), where_(std::move(where)) {
  where_.url = io::printable_url(where_.url);
  compose();
}

void Error::annotate(const Where& where) {
  if (where_.url.empty()) where_.url = io::printable_url(where.url);
  if (where_.key.empty()) where_.key = where.key;
  if (where_.member.empty()) where_.member = where.member;
  if (!where_.offset) where_.offset = where.offset;
  if (where_.stage.empty()) where_.stage = where.stage;
  compose();
}

void Error::compose() {
  std::string place;
  const auto add = [&place](std::string_view name, const std::string& value) {
    if (value.empty()) return;
    if (!place.empty()) place += ", ";
    place.append(name).append(" ").append(printable(value, kMaxPlaceBytes));
  };
  add("url", where_.url);
  add("key", where_.key);
  add("member", where_.member);
  add("offset", where_.offset ? std::to_string(*where_.offset) : "");
  add("stage", where_.stage);
  what_ = std::string(error_code_name(code_)) + ": " + message_;
  if (!place.empty()) what_ += " (" + place + ")";
}

void throw_errno(std::string_view what, const std::string& path, int error_number) {
  throw Error(code_of(error_number), std::string(what) + " " + path + ": " +
                                         std::generic_category().message(error_number));
}

}  // namespace millrace
