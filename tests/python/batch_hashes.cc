// Prints the batches of a pipeline in C++ as hashes, one JSON line each, for test_batches.py, which
// has the same pipeline in Python.
//   batch_hashes SPEC THREADS
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "decode/transforms/color_jitter.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_resized_crop.h"
#include "io/base/hash.h"
#include "pipeline/pipeline.h"

namespace millrace {
namespace {

pipeline::Pipeline make_pipeline(const std::string& spec, int threads) {
  return pipeline::Pipeline::Builder()
      .shards(spec)
      .split({.workers = 3})
      .shuffle({.shards = true, .buffer_samples = 40, .seed = 7})
      .field(pipeline::ImageField{
          .transforms = {decode::RandomResizedCrop{.size = {12, 10}},
                         decode::RandomHorizontalFlip{}, decode::ColorJitter{.brightness = 0.2},
                         decode::Normalize::imagenet()},
          .dtype = decode::DType::kBFloat16,
          .layout = decode::Layout::kCHW})
      .field(pipeline::LabelField{.classes = 10})
      .field(pipeline::RawField{.name = "raw", .suffixes = "cls"})
      .batch({.size = 16})
      .epochs({.count = 2})
      .resources({.threads = threads})
      .indexed()
      .build();
}

std::uint32_t hash_of(const std::string& text) { return crc32(std::as_bytes(std::span(text))); }

nlohmann::json line_of(const pipeline::Batch& batch) {
  std::string keys;
  for (const std::string& key : batch.keys) keys += key + "\n";
  std::string raw;
  for (std::int64_t i = 0; i < batch.size; ++i) raw += std::string(batch.raw("raw").text(i)) + "\n";
  return {{"epoch", batch.epoch},
          {"image", crc32(batch.field("image").data)},
          {"label", crc32(batch.field("label").data)},
          {"valid", crc32(std::as_bytes(std::span(batch.valid)))},
          {"keys", hash_of(keys)},
          {"raw", hash_of(raw)}};
}

}  // namespace
}  // namespace millrace

int main(int /*argc*/, char** argv) {
  auto pipeline = millrace::make_pipeline(argv[1], std::stoi(argv[2]));
  do {
    for (millrace::pipeline::Batch batch; pipeline.next(batch);)
      std::cout << millrace::line_of(batch) << "\n";
  } while (!pipeline.finished());
}
