// SampleSource: raw data as samples that can be made in any order, by many threads.
//
//   const auto source = open_folder_source("photos", {}, log);
//   for (std::uint64_t i = 0; i < source->size(); ++i) writer.write(source->make(i));
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/hash.h"
#include "wds/sample.h"

namespace millrace::tools {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  /// The number of samples.
  virtual std::uint64_t size() const = 0;
  /// Reads or generates the sample at `index`: key and fields. Requires: index < size(). Throws:
  /// Error with the file's path.
  virtual wds::Sample make(std::uint64_t index) const = 0;
  /// Adds the identity of the inputs (paths, sizes, times; not options) to `into`, so that a later
  /// run can detect changes. Throws: Io.
  virtual void identify(Sha256& into) const = 0;
  /// The class names, in the order of their labels, or the names of several labels; empty if there
  /// are none.
  virtual std::vector<std::string> classes() const { return {}; }
  /// The sample's group, which folds keep together; empty: a group of its own.
  virtual std::string group(std::uint64_t /*index*/) const { return {}; }
};

/// A field with `data`.
inline wds::Field make_field(std::string suffix, io::Bytes data) {
  return {.suffix = std::move(suffix), .data = std::move(data)};
}

}  // namespace millrace::tools
