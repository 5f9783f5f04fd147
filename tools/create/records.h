// Records: samples as other libraries store them, as numbered rows of named values:
// tf.train.Example, MDS, LitData, Parquet, Arrow.
//
// A value is JSON (numbers, texts, lists, objects, null), or one or several files: encoded
// pictures, raw pixels, arrays, any bytes. What of a sample becomes of a value is not the format's
// matter but that of open_record_source() (tools/create/record_source.h).
//
//   class MyRecords final : public Records { ... };   // tools/create/formats/NAME.cc
//   return open_record_source(std::make_unique<MyRecords>(request.paths), request);
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::tools {

using RecordJson = nlohmann::ordered_json;

/// Bytes of a value that is no JSON.
struct RecordFile {
  io::Bytes data = {};
  /// The suffix that such files have: "npy", "mp4"; empty: as their content tells.
  std::string suffix = {};
  /// Its place in a list, in which elements that are missing count.
  std::size_t place = 0;
  /// Raw pixels in place of `data`: encoded when they are written.
  std::optional<decode::Image> pixels = {};
};

struct RecordValue {
  RecordJson json = nullptr;
  /// If there are any, `json` has no meaning.
  std::vector<RecordFile> files = {};
  /// Whether `files` are a list, also of one.
  bool is_list = false;

  static RecordValue of(RecordFile file) {
    RecordValue value;
    value.files.push_back(std::move(file));
    return value;
  }
  static RecordValue of(RecordJson json) { return {.json = std::move(json)}; }
  bool is_null() const { return files.empty() && json.is_null(); }
};

class Records {
 public:
  virtual ~Records() = default;

  virtual std::uint64_t size() const = 0;
  /// The names, without a duplicate.
  virtual const std::vector<std::string>& columns() const = 0;
  /// The values of `columns`, in their order. Requires: index < size(). Throws: Error with the
  /// file.
  virtual std::vector<RecordValue> read(std::uint64_t index,
                                        const std::vector<std::size_t>& columns) const = 0;
  /// For messages: "train-0.tfrecord record 17".
  virtual std::string place(std::uint64_t index) const = 0;
  /// The files that are read: their sizes and times tell whether the input is the same.
  virtual std::vector<std::string> files() const = 0;
  /// Whether the format says that `column` holds bytes, so that none of its values is a text.
  virtual bool is_binary(std::size_t /*column*/) const { return false; }
  /// Names of the classes that the numbers in `column` stand for; empty if there are none.
  virtual std::vector<std::string> class_names(std::size_t /*column*/) const { return {}; }
};

}  // namespace millrace::tools
