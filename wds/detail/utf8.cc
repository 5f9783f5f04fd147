#include "wds/detail/utf8.h"

#include <cstddef>
#include <cstdint>

namespace millrace::wds::detail {
namespace {

// Length of the sequence that `lead` begins; 0 if it begins none.
std::size_t sequence_size(std::uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// After four lead bytes the second byte's range is narrower, which excludes overlong forms,
// surrogates and code points past U+10FFFF.
bool second_is_allowed(std::uint8_t lead, std::uint8_t second) {
  const std::uint8_t least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  return second >= least && second <= most;
}

}  // namespace

bool is_utf8(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t size = sequence_size(byte(i));
    if (size == 0 || size > text.size() - i) return false;
    if (size > 1 && !second_is_allowed(byte(i), byte(i + 1))) return false;
    for (std::size_t k = 2; k < size; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    i += size;
  }
  return true;
}

}  // namespace millrace::wds::detail
