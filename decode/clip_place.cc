#include "decode/clip_place.h"

namespace millrace::decode {

std::int64_t choose_place(ClipPlace place, std::int64_t places, const SampleId& id) {
  switch (place) {
    case ClipPlace::kStart:
      return 0;
    case ClipPlace::kMiddle:
      return (places - 1) / 2;
    case ClipPlace::kRandom:
      break;
  }
  KeyedRng rng = id.rng(purpose_of("clip place"));
  return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(places)));
}

}  // namespace millrace::decode
