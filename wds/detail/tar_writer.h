// TarWriter: libarchive writes members into a ByteSink.
//
// ustar, and pax only for what ustar cannot hold; the end is padded to 10,240 bytes. The same
// members give the same bytes on every machine. Buffers: 1 MB. Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/byte_sink.h"

namespace millrace::wds::detail {

class TarWriter {
 public:
  /// `mtime` is every member's, in seconds since 1970.
  TarWriter(std::unique_ptr<io::ByteSink> sink, std::int64_t mtime);
  ~TarWriter();
  TarWriter(TarWriter&&) noexcept;
  TarWriter& operator=(TarWriter&&) noexcept;

  /// Throws: what the sink throws; InvalidArgument for a name that no tar can hold.
  void add(const std::string& name, std::span<const std::byte> data);
  /// Ends the archive and the sink; returns the file's size in bytes. Called once, last.
  std::uint64_t finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds::detail
