// UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing past U+10FFFF.
#pragma once

#include <string_view>

namespace millrace::wds::detail {

bool is_utf8(std::string_view text);

}  // namespace millrace::wds::detail
