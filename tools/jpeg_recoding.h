// JpegRecoding: what `create` and `reshard` do to JPEGs on --jpeg, and what they say of it.
//
//   JpegRecoding jpeg;
//   jpeg.declare(app);
//   field.data = jpeg.recoded(field.suffix, field.data);
//   log.info("12 samples in 1 shard" + jpeg.summary(cluster));
//
// Threads: recoded() may be called from many threads at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "io/bytes.h"
#include "trainer/cluster.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class JpegRecoding {
 public:
  void declare(CLI::App& app);
  bool wanted() const { return !how_.empty(); }
  /// The option's word, empty without it: what a manifest says.
  const std::string& text() const { return how_; }

  /// The field's data as --jpeg says; unchanged if it is no JPEG, or one that cannot be re-coded,
  /// which is counted. Throws: std::bad_alloc.
  io::Bytes recoded(const std::string& suffix, const io::Bytes& data);
  /// The counts of all processes, as the end of a line; empty without --jpeg. Every process calls
  /// it.
  std::string summary(trainer::Cluster& cluster) const;

 private:
  std::string how_;
  std::atomic<std::uint64_t> recoded_ = 0;
  std::atomic<std::uint64_t> bytes_before_ = 0;
  std::atomic<std::uint64_t> bytes_after_ = 0;
  std::atomic<std::uint64_t> other_formats_ = 0;
  std::atomic<std::uint64_t> unsupported_ = 0;
  std::atomic<std::uint64_t> damaged_ = 0;
};

}  // namespace millrace::tools
