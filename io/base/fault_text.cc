#include "io/base/fault_text.h"

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "io/base/error.h"

namespace millrace {
namespace {

constexpr const char* kOwnFault = "a fault in millrace itself, please report it";

/// A library's text without its name for the exception: "[json.exception.out_of_range.403] key
/// ...".
std::string without_id(std::string_view text) {
  const std::size_t end = text.find("] ");
  if (text.starts_with("[json.exception.") && end != std::string_view::npos) {
    text.remove_prefix(end + 2);
    return text.starts_with("cannot use") ? "a value has the wrong type" : std::string(text);
  }
  return std::string(kOwnFault) + ": " + std::string(text);
}

}  // namespace

std::string fault_text(const std::exception& fault) {
  if (dynamic_cast<const Error*>(&fault) != nullptr) return fault.what();
  if (dynamic_cast<const std::bad_alloc*>(&fault) != nullptr ||
      dynamic_cast<const std::length_error*>(&fault) != nullptr)
    return "out of memory";
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&fault))
    return "Io: " + file->path1().string() + ": " + file->code().message();
  if (const auto* system = dynamic_cast<const std::system_error*>(&fault))
    return "Io: " + system->code().message();
  return without_id(fault.what());
}

std::string fault_text(const std::exception_ptr& fault) {
  try {
    std::rethrow_exception(fault);
  } catch (const std::exception& known) {
    return fault_text(known);
  } catch (...) {
    return kOwnFault;
  }
}

}  // namespace millrace
