// ClipPlace: where in a sound or film the part lies that a batch gets.
//
// Threads: any.
#pragma once

#include <array>
#include <cstdint>

#include "decode/sample_id.h"
#include "io/base/words.h"

namespace millrace::decode {

enum class ClipPlace {
  kRandom,  ///< drawn anew in each epoch
  kStart,
  kMiddle,
};
inline constexpr std::array<Word<ClipPlace>, 3> kClipPlaceWords = {
    {{"random", ClipPlace::kRandom}, {"start", ClipPlace::kStart}, {"middle", ClipPlace::kMiddle}}};

/// One of the `places` (at least 1) that a part may begin at, from 0 on.
std::int64_t choose_place(ClipPlace place, std::int64_t places, const SampleId& id);

}  // namespace millrace::decode
