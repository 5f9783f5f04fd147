// "Did you mean": the name that a word was most likely meant to be.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace::tools {

/// Lower case, without - _ and spaces: what "ResNet-18" and "resnet18" have in common.
std::string plain_name(std::string_view name);

/// The one of `names` that `word` is closest to; empty when none is close.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// "; did you mean adam?" for the nearest name; empty when none is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace millrace::tools
