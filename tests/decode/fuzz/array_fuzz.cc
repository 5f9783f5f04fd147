// libFuzzer target: any bytes as npy, npz, gzip, JSON, numbers and text.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/default_decoding.h"
#include "decode/json.h"
#include "decode/npy.h"
#include "decode/text.h"
#include "io/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace;  // NOLINT
  const auto field = io::Bytes::copy_of(std::as_bytes(std::span(data, size)));
  for (const char* suffix : {"npy", "npz", "npy.gz", "json", "cls", "txt"}) {
    try {
      const auto value =
          decode::decode_field(suffix, field, {.limits = {.max_unpacked_bytes = 1 << 20}});
      const auto* array = std::get_if<decode::NpyArray>(&value);
      if (array == nullptr || array->num_values() > (1 << 16)) continue;
      const decode::ArraySpec spec{decode::DType::kFloat32, array->shape};
      std::vector<std::byte> slot(spec.num_bytes());
      decode::copy_npy(*array, spec, slot);
    } catch (const Error&) {  // a fault is a valid result
    }
  }
  try {
    decode::decode_numbers(field);
    decode::decode_json_numbers(field, "labels");
  } catch (const Error&) {
  }
  return 0;
}
