// "Did you mean": finds the name that a misspelt word most likely stands for.
//
// Threads: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace millrace {

/// Lower case, without - _ and spaces: what "ResNet-18" and "resnet18" have in common.
std::string plain_name(std::string_view name);

/// The one of `names` that is closest to `word`; empty if none is close.
std::string nearest(std::string_view word, std::span<const std::string> names);

/// "; did you mean adam?" for the nearest name; empty if none is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace millrace
